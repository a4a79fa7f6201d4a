"""Joint alignments with the marginals as a control variate, and their error from the features."""

from collections.abc import Mapping

import torch

STREAMS = ("joint", "separable", "activation", "error")
Streams = Mapping[str, torch.Tensor]


def controlled_joint(
    first: Streams, second: Streams, cosine: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Returns the joint cosines with part of the features' noise taken out, and their standard errors.

    The features of the joint stream and of the separable one, psi_a * psi_e, share their draws and so much
    of their noise. What the cosine of the latter should be is known better from the marginals,
    cos(M_i (x) Gamma_i, M_j (x) Gamma_j) = S_a S_e, hence

        S_ae = c - b (c_separable - c_activation c_error),   b = Cov(c, z) / Var(z),

    z being the bracket, of mean 0. Covariances are by the delta method: the influence of a feature on the
    cosine of unit signatures u, v is t = u v - c (u^2 + v^2) / 2. Sums of products of influences are
    expanded into products of powers of the signatures, so that all of it is a matter of matrix products.

    Args:
        first: for each of `STREAMS` the (A, m) signatures over their norms and sqrt(m).
        second: (B, m) likewise.
        cosine: (A, B) cosines of each stream.

    Returns:
        The (A, B) joint alignments and their standard errors; NaN errors where m is 1.

    Source:
        Control variates: Owen, Monte Carlo theory, methods and examples, 2013, Section 8.9.
    """
    m = first["joint"].shape[1]
    if m == 1:  # one feature has no spread
        return cosine["joint"].clone(), torch.full_like(cosine["joint"], torch.nan)
    # z in first order, as weights of the separable, activation and error influences.
    weights = {
        "separable": torch.ones_like(cosine["joint"]),
        "activation": -cosine["error"],
        "error": -cosine["activation"],
    }
    of_joint = _covariance("joint", "joint", first, second, cosine)
    with_z = sum(w * _covariance("joint", name, first, second, cosine) for name, w in weights.items())
    of_z = torch.zeros_like(of_joint)
    names = list(weights)
    for place, name in enumerate(names):
        for other in names[place:]:
            both = weights[name] * weights[other] * _covariance(name, other, first, second, cosine)
            of_z += both if name == other else 2 * both
    # Where tasks are almost equal both vanish, and rounding must not make much of what is left.
    factor = torch.where(of_z > 0, with_z / of_z, 0.0).clamp(0.0, 2.0)
    z = cosine["separable"] - cosine["activation"] * cosine["error"]
    known = factor > 0  # else a marginal is undefined, or does not help
    joint = cosine["joint"] - torch.where(known, factor * z, 0.0)
    change = torch.where(known, factor * (factor * of_z - 2 * with_z), 0.0)
    return joint, (of_joint + change).clamp(min=0).sqrt()


def controlled_influence(
    target: Streams, sources: Streams, cosine: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the joint alignments of sources with one target as `controlled_joint` has them, by feature.

    Args:
        target: for each of `STREAMS` the (m,) signature over its norm, of mean square near 1.
        sources: (S, m) likewise.
        cosine: (S,) cosines of each stream.

    Returns:
        The (S,) joint alignments, and the (S, m) influences of the features on them.
    """
    influence = {}
    for name in STREAMS:
        u, v, c = target[name], sources[name], cosine[name][:, None]
        influence[name] = u * v - c * (u.square() + v.square()) / 2
    activation, error = cosine["activation"][:, None], cosine["error"][:, None]
    of_z = influence["separable"] - error * influence["activation"] - activation * influence["error"]
    if of_z.shape[1] == 1:
        return cosine["joint"].clone(), influence["joint"]
    centred = of_z - of_z.mean(1, keepdim=True)
    square = centred.square().sum(1)
    factor = torch.where(square > 0, (centred * influence["joint"]).sum(1) / square, 0.0).clamp(0.0, 2.0)
    known = factor > 0
    z = cosine["separable"] - cosine["activation"] * cosine["error"]
    joint = cosine["joint"] - torch.where(known, factor * z, 0.0)
    return joint, influence["joint"] - torch.where(known[:, None], factor[:, None] * of_z, 0.0)


def _covariance(
    p: str, q: str, first: Streams, second: Streams, cosine: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """Returns the (A, B) covariances of the estimated cosines of two streams, over the draw of features."""
    u, v, c = first[p], second[p], cosine[p]
    x, y, d = first[q], second[q], cosine[q]
    m = u.shape[1]
    uu, vv, xx, yy = u.square(), v.square(), x.square(), y.square()
    total = (u * x) @ (v * y).T
    total -= d / 2 * ((u * xx) @ v.T + u @ (v * yy).T)
    total -= c / 2 * ((x * uu) @ y.T + x @ (y * vv).T)
    own = (uu * xx).sum(1)[:, None] + (vv * yy).sum(1)
    total += c * d / 4 * (own + uu @ yy.T + xx @ vv.T)
    mean_p = c - c / 2 * (uu.sum(1)[:, None] + vv.sum(1))
    mean_q = d - d / 2 * (xx.sum(1)[:, None] + yy.sum(1))
    return (m * total - mean_p * mean_q) / (m - 1)
