"""Damage done to files at random: bits flipped, ends cut off, runs moved, numbers swapped; also beneath checksums."""

import gzip
import io
import json
import random
import re
import zipfile
from typing import Any

_NUMBER = re.compile(rb"\d+(\.\d+)?")
_MOST_NUMBERS = 10_000
_ODD: tuple[Any, ...] = (
    *(0, 1, -1, 2, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 2**63 - 1, 2**63, 2**64, -(2**70), 10**30, 0.5, 1e308),
    *(-1e308, 5e-324, None, True, False, "", "x", "nan", "\ud800", "x" * 500, [], [[]], [1], ["a"], {}, {"a": 1}),
)
_ODD_NUMBERS = (*(str(odd).encode() for odd in _ODD if type(odd) in (int, float)), b"nan", b"inf", b"-0", b"1e999", b"")
_ODD_BYTES = (b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 8, b"\0" * 8, b'"', b"\n")


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The content with one to three things changed, on the outside or, of an archive or of JSON, on the inside."""
    for _ in range(chance.randint(1, 3)):
        inside = [_in_archive, _in_gzip, _in_json, _in_json_line]
        changes = [_flip, _cut, _splice, _overwrite, _swap_numbers, _odd_number, *inside, *inside]
        changed = content
        while changed == content:
            changed = chance.choice(changes)(content, chance)
        content = changed
    return content


def _flip(content: bytes, chance: random.Random) -> bytes:
    """Up to eight bits turned."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 8) if content else 0):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)] if chance.random() < 0.8 else content + b"\0"


def _splice(content: bytes, chance: random.Random) -> bytes:
    """A run taken out, or put in somewhere once more, or over another."""
    first, stop, place = (chance.randrange(len(content) + 1) for _ in range(3))
    stop = min(stop, first + chance.choice((1, 8, 64, 4096)))
    run = content[first:stop]
    if chance.random() < 0.3:
        return content[:first] + content[stop:]
    return content[:place] + run + content[place + chance.choice((0, len(run))) :]


def _overwrite(content: bytes, chance: random.Random) -> bytes:
    place, odd = chance.randrange(len(content) + 1), chance.choice(_ODD_BYTES)
    return content[:place] + odd + content[place + len(odd) :]


def _swap_numbers(content: bytes, chance: random.Random) -> bytes:
    """Two numbers, as text, in each other's places."""
    found = list(_NUMBER.finditer(content[: 1 << 20]))[:_MOST_NUMBERS]
    if len(found) < 2:
        return _overwrite(content, chance)
    one, two = sorted(chance.sample(found, 2), key=lambda match: match.start())
    between = content[one.end() : two.start()]
    return content[: one.start()] + two[0] + between + one[0] + content[two.end() :]


def _odd_number(content: bytes, chance: random.Random) -> bytes:
    found = list(_NUMBER.finditer(content[: 1 << 20]))[:_MOST_NUMBERS]
    if not found:
        return _overwrite(content, chance)
    one = chance.choice(found)
    return content[: one.start()] + chance.choice(_ODD_NUMBERS) + content[one.end() :]


def _in_archive(content: bytes, chance: random.Random) -> bytes:
    """A member of a zip archive changed, its checksum made right."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: (info.compress_type, archive.read(info)) for info in archive.infolist()}
    except Exception:  # what was changed before may be no archive any more
        return content
    if not members:
        return content
    chosen, written = chance.choice(list(members)), io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, (kind, part) in members.items():
            archive.writestr(zipfile.ZipInfo(name), mutated(part, chance) if name == chosen else part, kind)
    return written.getvalue()


def _in_gzip(content: bytes, chance: random.Random) -> bytes:
    try:
        return gzip.compress(mutated(gzip.decompress(content), chance), mtime=0)
    except Exception:
        return content


def _in_json(content: bytes, chance: random.Random) -> bytes:
    """A value of a JSON text replaced by an odd one, dropped, or given another name."""
    try:
        value = json.loads(content)
    except Exception:
        return content
    return json.dumps(_changed(value, chance)).encode()


def _in_json_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    if not content.startswith(b"{") or len(lines) < 3:
        return content
    place = chance.randrange(len(lines))
    return b"\n".join([*lines[:place], _in_json(lines[place], chance), *lines[place + 1 :]])


def _changed(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, list | dict) or not value or chance.random() < 0.1:
        return chance.choice(_ODD)
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place, copy = chance.choice(places), value.copy()
    what = chance.random()
    if what < 0.1:
        del copy[place]
    elif what < 0.2 and isinstance(copy, dict):
        copy[chance.choice(("x", "", *copy))] = copy.pop(place)
    else:
        copy[place] = _changed(value[place], chance)
    return copy
