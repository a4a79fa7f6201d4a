import pytest
import scipy.spatial.distance
import scipy.stats
import torch
from baseline_tasks import make_pair

from fishersketch.baselines import UndefinedSimilarityError, rsa
from fishersketch.errors import FisherSketchError

COMPARE = {"spearman": scipy.stats.spearmanr, "pearson": scipy.stats.pearsonr}


@pytest.mark.parametrize("comparison", COMPARE)
@pytest.mark.parametrize("dissimilarity", ["correlation", "euclidean"])
def test_agrees_with_scipy(dissimilarity, comparison):
    first, second = make_pair(0)
    expected = COMPARE[comparison](
        scipy.spatial.distance.pdist(first.numpy(), dissimilarity),
        scipy.spatial.distance.pdist(second.numpy(), dissimilarity),
    ).statistic
    assert rsa(first, second, dissimilarity=dissimilarity, comparison=comparison) == pytest.approx(
        expected, abs=1e-12
    )


def test_ties_share_their_mean_rank():
    first = torch.tensor([[0.0], [1.0], [2.0], [3.0], [3.0]])  # distances 1 2 3 3 1 2 2 1 1 0
    second = torch.tensor([[0.0], [1.0], [1.0], [4.0], [2.0]])
    expected = scipy.stats.spearmanr(
        scipy.spatial.distance.pdist(first.numpy()), scipy.spatial.distance.pdist(second.numpy())
    ).statistic
    assert rsa(first, second, dissimilarity="euclidean") == pytest.approx(expected, abs=1e-12)


def test_the_defaults_are_correlation_distance_and_spearman():
    first, second = make_pair(1)
    assert rsa(first, second) == rsa(first, second, dissimilarity="correlation", comparison="spearman")
    assert rsa(first, second) != rsa(first, second, comparison="pearson")
    assert rsa(first, second) != rsa(first, second, dissimilarity="euclidean")


def test_refuses_what_has_no_value():
    first, second = make_pair(2)
    with pytest.raises(UndefinedSimilarityError, match="RSA needs at least 3 samples, and 2 were given"):
        rsa(first[:2], second[:2])
    flat = first.clone()
    flat[4] = 7
    with pytest.raises(UndefinedSimilarityError, match="first holds sample 4 whose dimensions are all equal"):
        rsa(flat, second)
    with pytest.raises(UndefinedSimilarityError, match="all dissimilarities in second are equal"):
        rsa(first[:3], torch.eye(3), dissimilarity="euclidean")


def test_refuses_unknown_words():
    first, second = make_pair(3)
    with pytest.raises(FisherSketchError, match="dissimilarity='cosine': give"):
        rsa(first, second, dissimilarity="cosine")
    with pytest.raises(FisherSketchError, match="comparison='kendall': give"):
        rsa(first, second, comparison="kendall")
