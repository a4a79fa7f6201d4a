"""Kernel sums between the samples of two tasks, by Gram matrices in blocks."""

from dataclasses import dataclass

import torch

from fishersketch.samples import sequence_lengths, working_dtype
from fishersketch.self_terms import SelfTerms

_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Samples:
    """One task: activations (N, d), errors (N, K) and group (N,) or None."""

    activations: torch.Tensor
    errors: torch.Tensor
    group: torch.Tensor | None

    def halves(self) -> torch.Tensor:
        """Returns the (N,) half of each row."""
        if self.group is None:
            return torch.zeros(len(self.errors), dtype=torch.int64)
        return (self.group % 2).cpu().to(torch.int64)


@dataclass(frozen=True)
class KernelSums:
    r"""Sums of kernels over pairs of samples, each sample in one of two halves.

    Attributes:
        joint, activation, error: (2, 2) float64 sums over pairs of halves of (a.a')^2 (e.e')^2, of
            (a.a')^2 and of (e.e')^2.
        cross: (2, 2, 2) float64: for samples x of half h, the sum of
            [sum over x' of half u of (a.a')^2] [sum over x'' of half v of (e.e'')^2]; filled where the two
            tasks are one.
        counts_first, counts_second: (2,) float64 samples of each half.
    """

    joint: torch.Tensor
    activation: torch.Tensor
    error: torch.Tensor
    cross: torch.Tensor
    counts_first: torch.Tensor
    counts_second: torch.Tensor

    def means(self) -> tuple[float, float, float]:
        """Returns <F, F'>, <M, M'> and <Gamma, Gamma'>: means over all pairs."""
        pairs = float(self.counts_first.sum() * self.counts_second.sum())
        return tuple(float(s.sum()) / pairs for s in (self.joint, self.activation, self.error))  # type: ignore[return-value]

    def plain_terms(self) -> SelfTerms:
        """Returns self terms over all pairs, a sample with itself included."""
        joint, activation, error = self.means()
        n = float(self.counts_first.sum())
        return SelfTerms(joint, activation, error, activation * error, float(self.cross.sum()) / n**3)

    def split_terms(self) -> SelfTerms:
        """Returns self terms over pairs of different halves."""
        n_0, n_1 = self.counts_first.tolist()
        joint, activation, error = (
            float(s[0, 1]) / (n_0 * n_1) for s in (self.joint, self.activation, self.error)
        )
        cross = float(self.cross[0, 1, 1]) / (n_0 * n_1**2) + float(self.cross[1, 0, 0]) / (n_1 * n_0**2)
        return SelfTerms(joint, activation, error, activation * error, cross / 2)


def token_kernel_sums(first: Samples, second: Samples) -> KernelSums:
    """Returns the kernel sums between tokens; blocks are squared and summed in float64.

    Args:
        first: one task.
        second: the other, or the same object for self terms.
    """
    activation_rows, error_rows, joint_rows = _row_sums(first, second)
    one_first, one_second = _one_hot(first.halves()), _one_hot(second.halves())
    return _sums(joint_rows, activation_rows, error_rows, one_first, one_second, first is second)


def sequence_kernel_sums(first: Samples, second: Samples) -> KernelSums:
    r"""Returns the kernel sums between sequences, G = sum_t e_t a_t^T being one sample.

    With A, E the Gram matrices between two sequences and A_1, E_1, A_2, E_2 those within them,

        <F, F'>         = (sum A * E)^2
        <M, M'>         = |G G'^T|^2 = sum (E_1 A) * (A E_2)
        <Gamma, Gamma'> = |G^T G'|^2 = sum (A_1 E) * (E A_2).

    Args:
        first: one task.
        second: the other, or the same object for self terms.
    """
    dtype = _dtype(first, second)
    firsts, seconds = _sequences(first), _sequences(second)
    kernels = torch.zeros(3, len(firsts), len(seconds), dtype=torch.float64)
    for i, (a_1, e_1, _) in enumerate(firsts):
        a_1, e_1 = a_1.to(dtype), e_1.to(dtype)
        gram_a1, gram_e1 = a_1 @ a_1.T, e_1 @ e_1.T
        for j, (a_2, e_2, _) in enumerate(seconds):
            a_2, e_2 = a_2.to(dtype), e_2.to(dtype)
            gram_a, gram_e = a_1 @ a_2.T, e_1 @ e_2.T
            kernels[0, i, j] = _dot(gram_a, gram_e).square()
            kernels[1, i, j] = _dot(gram_e1 @ gram_a, gram_a @ (e_2 @ e_2.T))
            kernels[2, i, j] = _dot(gram_a1 @ gram_e, gram_e @ (a_2 @ a_2.T))
    one_first, one_second = (_one_hot(torch.tensor([half for *_, half in s])) for s in (firsts, seconds))
    joint, activation, error = (kernel @ one_second for kernel in kernels)
    return _sums(joint, activation, error, one_first, one_second, first is second)


def _row_sums(first: Samples, second: Samples) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns each row of the first task's kernels, summed by half of the second: three (N, 2)."""
    sums = torch.zeros(3, len(first.errors), 2, dtype=torch.float64)
    halves = _one_hot(second.halves()).to(second.errors.device)
    dtype = _dtype(first, second)
    for start in range(0, len(first.errors), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        for other in range(0, len(second.errors), _BLOCK_ROWS):
            columns = slice(other, other + _BLOCK_ROWS)
            activation = _gram(first.activations[rows], second.activations[columns], dtype).square_()
            error = _gram(first.errors[rows], second.errors[columns], dtype).square_()
            for index, kernel in enumerate((activation, error, activation * error)):
                sums[index, rows] += (kernel @ halves[columns]).cpu()
    return sums[0], sums[1], sums[2]


def _sums(
    joint: torch.Tensor,
    activation: torch.Tensor,
    error: torch.Tensor,
    one_first: torch.Tensor,
    one_second: torch.Tensor,
    one_task: bool,
) -> KernelSums:
    """Returns the sums of rows (N, 2) by their own half."""
    cross = torch.zeros(2, 2, 2, dtype=torch.float64)
    if one_task:
        cross = torch.einsum("nh,nu,nv->huv", one_first, activation, error)
    return KernelSums(
        joint=one_first.T @ joint,
        activation=one_first.T @ activation,
        error=one_first.T @ error,
        cross=cross,
        counts_first=one_first.sum(0),
        counts_second=one_second.sum(0),
    )


def _one_hot(halves: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(halves, 2).to(torch.float64)


def _dtype(first: Samples, second: Samples) -> torch.dtype:
    return working_dtype(first.activations, first.errors, second.activations, second.errors)


def _gram(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns x y^T, multiplied in `dtype` and then float64, where its square has room."""
    return (x.to(dtype) @ y.to(dtype).T).double()


def _dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.double() * y.double()).sum()


def _sequences(samples: Samples) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """Returns the activations, errors and half of each sequence."""
    assert samples.group is not None
    numbers, lengths = sequence_lengths(samples.group)
    blocks = zip(samples.activations.split(lengths), samples.errors.split(lengths), numbers, strict=True)
    return [(a, e, number % 2) for a, e, number in blocks]
