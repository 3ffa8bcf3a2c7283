"""A page of the API reference for every room, made when the site is built, so that none is missing or left over."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the pages in the navigation."""
    assert config.nav is not None
    config.nav.append({"Reference": [{name: _page(name)} for name in _names()]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages: mkdocstrings fills them from the docstrings."""
    for name in _names():
        files.append(File.generated(config, _page(name), content=f"# {name}\n\n::: {name}\n"))
    return files


def _names() -> list[str]:
    rooms = [path for path in (_ROOT / "lcml").iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"]
    inside = sorted(f"lcml.{path.stem}" for path in rooms if not path.stem.startswith("_"))
    return [*inside, "lcml_export", "lcml_serving"]


def _page(name: str) -> str:
    return f"reference/{name}.md"
