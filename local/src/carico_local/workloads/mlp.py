"""The published jobs' network: 512 features, 8 hidden layers of 1024 neurons, 16 classes, 5000 random samples.

It is trained with Adam on batches of 200, the defaults of sklearn's MLPClassifier, and then classifies as many other
samples (dissertation, B.3). It ends after its seconds of work: how many steps that makes depends on the machine. At a
scale below 1 its layers are narrower, so that memory and the time of a step shrink with the scale.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from carico_local.workloads import pacing

Floats = npt.NDArray[np.float64]

FEATURES = 512
NEURONS = 1024
LAYERS = 8
CLASSES = 16
SAMPLES = 5000
BATCH = 200
# Adam's rate and decays, sklearn's defaults.
_RATE, _DECAY_MEAN, _DECAY_SQUARE, _TINY = 1e-3, 0.9, 0.999, 1e-8
# Share of the work that is inference: a step of training costs three times as much as inference on its samples.
_INFERENCE = 0.1
# Rows of a product between two paces: at scale 1/8 some 0.2 ms, below the 0.3 ms share of a period.
_ROWS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result: neurons of a hidden layer, steps of training, the loss of the first and the last, samples classified.

    Losses are None where the work ended before the first step. memory_bytes: of weights, their gradients and moments,
    and of the samples. cpu_s: real CPU seconds used.
    """

    neurons: int
    steps: int
    first_loss: float | None
    last_loss: float | None
    classified: int
    memory_bytes: int
    cpu_s: float


def compute(*, seconds: float, scale: float, timer: pacing.Timer) -> Outcome:
    """Do `seconds` of work on one emulated core: build the network and its samples, train, classify."""
    pacer = pacing.Pacer(scale=scale, timer=timer)
    narrow = math.sqrt(scale)
    sizes = [max(1, round(each * narrow)) for each in (FEATURES, *(NEURONS,) * LAYERS)] + [CLASSES]
    network = Perceptron(sizes, samples=max(BATCH, round(SAMPLES * narrow)))
    budget_s = seconds * scale
    for work, until_s in ((network.train(), (1.0 - _INFERENCE) * budget_s), (network.classify(), budget_s)):
        for _ in work:
            pacer.pace()
            if pacer.cpu_s >= until_s:
                break
    return Outcome(
        neurons=sizes[1],
        steps=len(network.losses),
        first_loss=network.losses[0] if network.losses else None,
        last_loss=network.losses[-1] if network.losses else None,
        classified=network.classified,
        memory_bytes=network.memory_bytes,
        cpu_s=pacer.cpu_s,
    )


class Perceptron:
    """A multi-layer perceptron with rectified linear units, and a softmax at its end.

    Its methods are iterators that yield after each small piece of work, so that a thread can keep its pace.
    """

    def __init__(self, sizes: list[int], *, samples: int) -> None:
        """sizes: neurons of each layer, from the features to the classes."""
        self.losses: list[float] = []
        self.classified = 0
        self.weights: list[Floats] = []
        self.gradients: list[Floats] = []
        self._means: list[Floats] = []
        self._squares: list[Floats] = []
        self._sizes = sizes
        self._rng = np.random.default_rng(0)
        self._samples = np.empty((samples, sizes[0]))
        self._labels = np.empty(samples, dtype=np.int64)
        # The class of a sample is the largest of these products: it can be learnt.
        self._truth = self._rng.standard_normal((sizes[0], sizes[-1]))

    @property
    def memory_bytes(self) -> int:
        """Bytes of all arrays that last."""
        every = (*self.weights, *self.gradients, *self._means, *self._squares, self._samples, self._labels)
        return sum(each.nbytes for each in every)

    def build(self) -> Iterator[None]:
        """Make the weights (with a row for the bias), and draw the samples."""
        for before, after in zip(self._sizes, self._sizes[1:], strict=False):
            bound = math.sqrt(6.0 / (before + after))
            weight = np.empty((before + 1, after))
            self.weights.append(weight)
            for rows in _rows(weight):
                rows[:] = self._rng.uniform(-bound, bound, rows.shape)
                yield
            for kept in (self.gradients, self._means, self._squares):
                kept.append(np.zeros_like(weight))
                yield
        yield from self._draw()

    def _draw(self) -> Iterator[None]:
        labels = np.split(self._labels, range(_ROWS, len(self._labels), _ROWS))
        for rows, label in zip(_rows(self._samples), labels, strict=True):
            rows[:] = self._rng.standard_normal(rows.shape)
            label[:] = (rows @ self._truth).argmax(axis=1)
            yield

    def train(self) -> Iterator[None]:
        """Build, then train for ever, a batch at a time."""
        yield from self.build()
        while True:
            for first in range(0, len(self._samples), BATCH):
                batch = slice(first, first + BATCH)
                yield from self.step(self._samples[batch], self._labels[batch])
                yield from self._descend()

    def step(self, samples: Floats, labels: npt.NDArray[np.int64]) -> Iterator[None]:
        """Compute the loss of a batch, and the gradients."""
        layers: list[Floats] = [samples]
        yield from self._forward(layers)
        each = np.arange(len(labels))
        chances = layers.pop()
        self.losses.append(float(-np.log(chances[each, labels] + _TINY).mean()))
        # d loss / d output of a softmax = (chances - truth) / batch
        chances[each, labels] -= 1.0
        error = chances / len(labels)
        for index in reversed(range(len(self.weights))):
            weight, gradient, layer = self.weights[index], self.gradients[index], layers[index]
            yield from _multiply(layer.T, error, gradient[:-1])
            gradient[-1] = error.sum(axis=0)
            if index:
                back = np.empty_like(layer)
                yield from _multiply(error, weight[:-1].T, back)
                error = back * (layer > 0.0)

    def classify(self) -> Iterator[None]:
        """Classify other samples for ever; the network must have been built."""
        yield from self._draw()
        while True:
            for first in range(0, len(self._samples), BATCH):
                layers = [self._samples[first : first + BATCH]]
                yield from self._forward(layers)
                self.classified += len(layers[-1])

    def _forward(self, layers: list[Floats]) -> Iterator[None]:
        """Append the output of each layer; the last one's are the chances of the classes."""
        for index, weight in enumerate(self.weights):
            out = np.empty((len(layers[-1]), weight.shape[1]))
            yield from _multiply(layers[-1], weight[:-1], out)
            out += weight[-1]
            if index < len(self.weights) - 1:
                np.maximum(out, 0.0, out=out)
            else:
                out -= out.max(axis=1, keepdims=True)
                np.exp(out, out=out)
                out /= out.sum(axis=1, keepdims=True)
            layers.append(out)

    def _descend(self) -> Iterator[None]:
        """Take a step of Adam (Kingma and Ba, 2015)."""
        count = len(self.losses)
        rate = _RATE * math.sqrt(1.0 - _DECAY_SQUARE**count) / (1.0 - _DECAY_MEAN**count)
        for every in zip(self.weights, self.gradients, self._means, self._squares, strict=True):
            for weight, gradient, mean, square in zip(*(_rows(each) for each in every), strict=True):
                mean += (1.0 - _DECAY_MEAN) * (gradient - mean)
                square += (1.0 - _DECAY_SQUARE) * (gradient * gradient - square)
                weight -= rate * mean / (np.sqrt(square) + _TINY)
                yield


def _rows(array: Floats) -> Iterator[Floats]:
    """Yield the rows of an array, some at a time, as views."""
    return (array[first : first + _ROWS] for first in range(0, len(array), _ROWS))


def _multiply(left: Floats, right: Floats, out: Floats) -> Iterator[None]:
    """Compute left @ right into `out`, some rows at a time."""
    for some, result in zip(_rows(left), _rows(out), strict=True):
        np.matmul(some, right, out=result)
        yield
