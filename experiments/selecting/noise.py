"""Whether the best two sources can be told apart, and how much text or how many features would do it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from experiments.selecting.blocks import merged
from fishersketch import FisherSketch, TaskSignature
from fishersketch.ranking import align_to, stderr_of_difference

STANDARD_ERRORS = 2.0
_TOO_MANY = 1e8


@dataclass(frozen=True)
class Difference:
    """The best source's joint alignment less that of the next.

    Attributes:
        difference: The difference of the scores.
        stderr_sketch: Its standard error from the random features.
        stderr_sampling: Its standard error from the tokens drawn; NaN where a signature without blocks is one
            of the two.
    """

    difference: float
    stderr_sketch: float
    stderr_sampling: float

    @property
    def stderr(self) -> float:
        """The two errors together, which are independent."""
        return math.hypot(self.stderr_sketch, 0.0 if self.sampling_unknown else self.stderr_sampling)

    @property
    def sampling_unknown(self) -> bool:
        """Whether the part from the tokens is not known."""
        return math.isnan(self.stderr_sampling)

    @property
    def within_noise(self) -> bool:
        """Whether the two cannot be told apart."""
        return not self.difference >= STANDARD_ERRORS * self.stderr

    def to_settle(self, tokens: int, features: int) -> tuple[int, int] | None:
        """Returns the tokens of each text and the features with which the difference would be clear.

        The sampling error falls as 1 / sqrt(tokens) and the sketch's as 1 / sqrt(features). Features stay as
        they are while tokens alone can do it within fourfold; else both errors get an equal share.

        Args:
            tokens: Tokens that the texts have now.
            features: Features now, m.

        Returns:
            The two numbers, for a difference as it is now; None where they would be beyond reach.
        """
        allowed = (self.difference / STANDARD_ERRORS) ** 2
        sampling = 0.0 if self.sampling_unknown else self.stderr_sampling**2
        left = allowed - self.stderr_sketch**2
        if left > allowed / 4:
            more_tokens, more_features = sampling / left, 1.0
        elif allowed > 0:
            more_tokens, more_features = (2 * part / allowed for part in (sampling, self.stderr_sketch**2))
        else:
            return None
        needed = (tokens * max(more_tokens, 1.0), features * max(more_features, 1.0))
        if max(needed) > _TOO_MANY:
            return None
        return _rounded_up(needed[0]) if more_tokens > 1 else tokens, math.ceil(needed[1])


def difference_of_two(
    target: tuple[TaskSignature, Sequence[FisherSketch]],
    first: tuple[TaskSignature, Sequence[FisherSketch] | None],
    second: tuple[TaskSignature, Sequence[FisherSketch] | None],
    self_terms: str,
) -> Difference:
    """Returns the difference of two sources' joint alignments with its standard errors.

    The blocks of all three texts are left out in turn (jackknife): a text's part of the variance is
    (B - 1) / B sum_b (D_b - mean D_b)^2, and texts are drawn independently. The target's draw moves both
    scores alike, so that the error is not that of two independent scores.

    Args:
        target: Signature and blocks.
        first: Signature of the better source, and its blocks, if it has any.
        second: The same of the other.
        self_terms: split or plain.
    """
    scores = align_to(target[0], [first[0], second[0]], self_terms).joint
    variance = math.nan
    if first[1] is not None and second[1] is not None:
        variance = sum(_variance(part, target[1], first[1], second[1], self_terms) for part in range(3))
    return Difference(
        difference=float(scores[0] - scores[1]),
        stderr_sketch=stderr_of_difference(target[0], first[0], second[0], self_terms),
        stderr_sampling=variance**0.5,
    )


def _variance(
    part: int,
    target: Sequence[FisherSketch],
    first: Sequence[FisherSketch],
    second: Sequence[FisherSketch],
    self_terms: str,
) -> float:
    texts = [list(target), list(first), list(second)]
    whole = [merged(blocks).signature() for blocks in texts]
    differences = []
    for block in range(len(texts[part])):
        signatures = [*whole]
        signatures[part] = merged(texts[part], without=block).signature()
        joint = align_to(signatures[0], signatures[1:], self_terms).joint
        differences.append(float(joint[0] - joint[1]))
    values = torch.tensor(differences, dtype=torch.float64)
    return float((values - values.mean()).square().sum()) * (len(values) - 1) / len(values)


def _rounded_up(count: float) -> int:
    """Returns the number with two digits, not below it."""
    step = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / step) * step
