"""Where in images the evidence for every class lies, and what of it weighs most."""

import numpy as np

from lcml.arrays import FloatArray
from lcml.explain.contributions import class_weights
from lcml.explain.groups import group_in_words, summed
from lcml.explain.pixels import evidence, image_shape, pictures, place_of
from lcml.explain.report.drawing import Drawing
from lcml.explain.report.html import figure, figures, heading, said, section
from lcml.explain.report.measured import MOST_CLASSES, Measured
from lcml.explain.report.why import marked, over, picture

_STRONGEST = 5
_FAINT = 0.5  # of a picture's brightness, behind a map


def images_section(found: Measured) -> tuple[str, str, str]:
    """For every class: the mean of its images with the strongest conditions over it, and the map of its evidence."""
    model, shape = found.model, image_shape(found.model)
    assert shape is not None
    labels = found.labels[found.sample]
    codes = [code for code in range(len(found.classes)) if (labels == code).any()][:MOST_CLASSES]
    added, encoded = _by_class(found, codes)
    maps = evidence(model, found.groups, added)
    most = float(np.quantile(np.abs(maps), 0.98)) if maps.any() else 1.0
    strongest, mapped = [], []
    for i, code in enumerate(codes):
        name = found.classes[code]
        images = pictures(model, found.raw(found.sample[labels == code]))
        image = np.asarray(np.rint(images.mean(axis=0)), np.uint8)
        order = np.argsort(-np.abs(added[i]), kind="stable")[:_STRONGEST].tolist()
        groups = [found.groups[g] for g in order if added[i, g] != 0]
        words = [group_in_words(model, group, found.names) for group in groups]
        values = [float(added[i, g]) for g in order]
        places = [place_of(model, group, encoded[i]) for group in groups]
        told = "; ".join(f"{value:+.3f} {text}" for value, text in zip(values, words, strict=False))
        drawing = picture(image, f"Mean image of class {name} with the strongest conditions over it: {told}")
        marks = zip(places, values, words, strict=False)
        strongest.append(figure(marked(drawing, shape[1:], marks), f"{name}"))
        label = f"Map of the evidence for class {name} in its images: {_told(maps[i])}"
        total = f"{name}: {maps[i].sum():+.2f} in all"
        mapped.append(figure(_map(image, maps[i], most, label), total))
    left = sum((labels == code).any() for code in range(len(found.classes))) - len(codes)
    return section(
        "images",
        "What is seen in the images",
        said(
            f"Of {len(found.sample):,} of the rows, each against the mean of all."
            + (f" The first {len(codes)} classes; {left} more have no picture." if left > 0 else "")
        ),
        heading("Where the evidence for each class lies"),
        said(
            "What the images of a class add to its logit in the mean, beside what all images add, laid on the pixels "
            "that the conditions read: blue is for the class, red against it. A map sums up to the class's whole gain."
        ),
        figures(mapped),
        heading("The strongest conditions"),
        said(
            "Over the mean image of the class, in the window of the cell where each holds most: blue adds, red takes; "
            "a filled square is to be bright in the channel, an empty one dark. Point at it for the words."
        ),
        figures(strongest),
    )


def _by_class(found: Measured, codes: list[int]) -> tuple[FloatArray, FloatArray]:
    """(n_codes, n_groups) what every group adds to the logit of a class in the mean of its examples, beside the mean of
    all; and (n_codes, n_inputs) the mean of its encoded examples."""
    model, labels = found.model, found.labels[found.sample]
    sums = np.zeros((len(codes), model.weights.shape[1]))
    encoded = np.zeros((len(codes), model.encoder.n_outputs))
    own = (labels == np.array(codes)[:, None]).astype(np.float64)
    for places, values in found.chunks():
        sums += own[:, places] @ values
        encoded += own[:, places] @ model.encode(found.raw(found.sample[places]))
    sizes = own.sum(axis=1, keepdims=True)
    usual = 0.0 if found.average is None else found.average
    gains = [
        summed(class_weights(found.model, code)[0] * difference, found.groups)
        for code, difference in zip(codes, sums / sizes - usual, strict=True)
    ]
    return np.array(gains), encoded / sizes


def _map(image: np.ndarray, values: FloatArray, most: float, label: str) -> Drawing:
    return over(picture(np.asarray(_FAINT * image, np.uint8), label), values, most)


def _told(values: FloatArray) -> str:
    """Where most of it lies, by the rows and columns of the image."""
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    low = np.unravel_index(int(values.argmin()), values.shape)
    most = f"most for it around row {row}, column {column}, most against it around row {low[0]}, column {low[1]}"
    return f"{values.sum():+.2f} in all, {most}"
