"""Source-selection scores against hand-computed values and enumerations."""

import itertools
import json

import numpy as np
import pytest
import scipy.stats

from experiments import scores
from experiments.draws import permutations
from experiments.errors import UserError
from tests.score_matrices import GAIN, random_matrix

NAN = float("nan")


def test_hand_computed_values() -> None:
    guess = np.array([[0, 3, 1, 5], [2, 0, 3, 4], [9, 1, 0, 3], [1, 2, 2, 0]], dtype=float)
    # target 0 picks 2 (gain .1, best .4), 1 and 2 pick their best, target 3 picks 0 (gain .3, best .6)
    found = scores.target_scores(guess, GAIN)
    assert found.top1.tolist() == [0, 1, 1, 0]
    assert found.top3.tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(found.regret, [0.3, 0, 0, 0.3])
    np.testing.assert_allclose(found.regret_relative, [0.75, 0, 0, 0.5])
    np.testing.assert_allclose(found.spearman, [-0.5, 1, 0.5, -0.5])
    assert found.candidates.tolist() == [3, 3, 3, 3]


def test_the_diagonal_is_never_looked_at() -> None:
    guess = random_matrix(4, "guess")
    with_nan = guess + np.diag([NAN, 1e9, -1e9, NAN])
    gain = GAIN - np.diag([NAN, 0, 1e9, 3])
    for field in ("top1", "top3", "regret", "regret_relative", "spearman", "undefined"):
        expected = getattr(scores.target_scores(guess, GAIN), field)
        np.testing.assert_array_equal(getattr(scores.target_scores(with_nan, gain), field), expected)


@pytest.mark.parametrize("count", [3, 7, 24, 101])
def test_constant_scores_are_worth_exactly_a_random_pick(count: int) -> None:
    gain = random_matrix(count, "gain")
    for constant in (np.zeros((count, count)), np.full((count, count), NAN)):
        found = scores.target_scores(constant, gain)
        assert (found.top1 == 1 / (count - 1)).all()
        assert (found.top3 == min(3 / (count - 1), 1)).all()
        assert (found.spearman == 0).all()
        mean_gain = (gain.sum(axis=0) - np.diag(gain)) / (count - 1)
        best = np.where(np.eye(count, dtype=bool), -1, gain).max(axis=0)
        np.testing.assert_allclose(found.regret, best - mean_gain, atol=1e-12)
    assert scores.random_top1(gain) == pytest.approx(1 / (count - 1), abs=1e-15)


def test_ties_equal_the_average_over_every_way_to_break_them() -> None:
    guess = np.round(4 * random_matrix(6, "tied scores"))
    gain = np.round(4 * random_matrix(6, "tied gains")) / 4
    found = scores.target_scores(guess, gain)
    for j in range(6):
        others = [i for i in range(6) if i != j]
        top1, top3, regret = [], [], []
        for order in itertools.permutations(others):  # a random order breaks ties of the scores
            picked = sorted(order, key=lambda i: -guess[i, j])
            best = [i for i in others if gain[i, j] == max(gain[others, j])]
            top1.append(np.mean([b == picked[0] for b in best]))
            top3.append(np.mean([b in picked[:3] for b in best]))
            regret.append(max(gain[others, j]) - gain[picked[0], j])
        assert found.top1[j] == pytest.approx(np.mean(top1), abs=1e-12)
        assert found.top3[j] == pytest.approx(np.mean(top3), abs=1e-12)
        assert found.regret[j] == pytest.approx(np.mean(regret), abs=1e-12)


def test_undefined_scores_are_counted_and_never_picked() -> None:
    guess = np.array([[0, 1, 1, 1], [NAN, 0, 2, 1], [2, 2, 0, NAN], [1, NAN, NAN, 0]])
    found = scores.target_scores(guess, GAIN)
    assert found.undefined.tolist() == [1, 1, 1, 1]
    assert found.top1.tolist() == [0, 0, 1, 0]  # the best of targets 0 and 3 has no score
    assert found.top3.tolist() == [1, 1, 1, 1]  # with three candidates the first three are all of them
    np.testing.assert_allclose(found.regret, [0.3, 0.3, 0, 0.4])
    negative = np.where(np.isnan(guess), NAN, guess - 100)  # a number below zero still beats NaN
    np.testing.assert_array_equal(scores.target_scores(negative, GAIN).top1, found.top1)


def test_spearman_is_scipys() -> None:
    guess = np.round(5 * random_matrix(9, "a"))
    gain = random_matrix(9, "b")
    found = scores.target_scores(guess, gain).spearman
    for j in range(9):
        others = np.arange(9) != j
        expected = scipy.stats.spearmanr(guess[others, j], gain[others, j]).statistic
        assert found[j] == pytest.approx(expected, abs=1e-12)


def test_monotone_maps_of_a_column_and_renaming_domains_change_nothing() -> None:
    guess, gain = random_matrix(8, "guess"), random_matrix(8, "gain") - 0.5
    plain = scores.target_scores(guess, gain)
    mapped = scores.target_scores(np.exp(3 * guess) + np.arange(8), gain)
    order = permutations("renaming", 0, 1, 8)[0]
    renamed = scores.target_scores(guess[np.ix_(order, order)], gain[np.ix_(order, order)])
    for field in ("top1", "top3", "regret", "spearman"):
        np.testing.assert_array_equal(getattr(mapped, field), getattr(plain, field))
        np.testing.assert_allclose(getattr(renamed, field), getattr(plain, field)[order], atol=1e-12)


def test_masks_restrict_the_candidates() -> None:
    groups = ["a", "a", "a", "b", "b", "c"]
    mask = scores.within_groups(groups)
    assert mask.sum(axis=0).tolist() == [2, 2, 2, 1, 1, 0]
    gain, guess = random_matrix(6, "gain"), random_matrix(6, "guess")
    found = scores.target_scores(guess, gain, mask)
    assert np.isnan(found.top1).tolist() == [False] * 3 + [True] * 3  # one candidate is no choice
    np.testing.assert_array_equal(found.top1[:3], scores.target_scores(guess[:3, :3], gain[:3, :3]).top1)
    assert scores.random_top1(gain, mask) == 0.5
    overlap = np.zeros((6, 6))
    overlap[0, 1] = 0.3
    apart = scores.without_siblings(overlap, 0.2)
    assert not apart[0, 1] and apart[1, 0] and apart.sum() == 29
    hidden = gain.copy()
    hidden[0, 1] = NAN  # what the mask leaves out need not be known
    np.testing.assert_array_equal(
        scores.target_scores(guess, hidden, apart).regret, scores.target_scores(guess, gain, apart).regret
    )


def test_wrong_input_is_refused() -> None:
    with pytest.raises(UserError, match=r"scores \(3, 3\) and gain \(4, 4\)"):
        scores.target_scores(np.zeros((3, 3)), GAIN)
    with pytest.raises(UserError, match=r"gain\[1, 2\]=nan: a candidate's gain must be finite"):
        broken = GAIN.copy()
        broken[1, 2] = NAN
        scores.target_scores(GAIN, broken)
    with pytest.raises(UserError, match=r"both must be \(T, T\)"):
        scores.target_scores(GAIN, GAIN, np.ones((3, 3), dtype=bool))
    with pytest.raises(UserError, match=r"candidates=4: .* target 0 has 3 candidates"):
        scores.subset_scores({"a": GAIN}, GAIN, count=4)
    with pytest.raises(UserError, match="three or more domains"):
        scores.matrix_correlation(GAIN[:2, :2], GAIN[:2, :2], seed=0)


def test_ceiling_of_seeds_and_transpose() -> None:
    gain = random_matrix(6, "gain")
    assert scores.agreement(np.stack([gain, gain, gain])) == 1
    assert np.isnan(scores.agreement(gain[None]))
    other = GAIN.copy()
    other[0, 2] = 0.25  # the second seed prefers source 0 for target 2
    assert scores.agreement(np.stack([GAIN, other])) == 0.75
    assert scores.transpose_top1(gain + gain.T) == 1
    assert scores.transpose_top1(GAIN) == scores.target_scores(GAIN.T, GAIN).top1.mean()


def test_table_has_every_metric_and_only_plain_numbers() -> None:
    gain = np.stack([random_matrix(9, "seed 0"), random_matrix(9, "seed 1")])
    truth = gain.mean(axis=0)
    estimators = {
        "joint": truth + 0.1 * random_matrix(9, "n"),
        "perfect": truth,
        "worst": -truth,
        "none": 0 * truth,
    }
    table = scores.score_table(estimators, gain, half_gains=gain[:, ::-1], seed=3)
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    assert table["top1"]["perfect"] == 1 and table["top1_interval"]["perfect"] == [1, 1]
    assert table["mean_regret"]["perfect"] == 0 and table["max_regret"]["perfect"] == 0
    assert table["mean_spearman"]["perfect"] == pytest.approx(1)
    assert table["mean_spearman"]["worst"] == pytest.approx(-1) and table["top1"]["worst"] == 0
    assert table["top1"]["none"] == pytest.approx(table["random_top1"], abs=1e-15) == 1 / 8
    spread = np.where(np.eye(9, dtype=bool), np.nan, truth)
    assert table["max_regret"]["worst"] == pytest.approx(np.max(np.nanmax(spread, 0) - np.nanmin(spread, 0)))
    assert table["mean_regret_relative"]["none"] == pytest.approx(
        np.mean(1 - np.nanmean(spread, 0) / np.nanmax(spread, 0))
    )
    assert table["p_top1_against_joint"].keys() == {"perfect", "worst", "none"}
    one = scores.target_scores(estimators["worst"], truth), scores.target_scores(estimators["joint"], truth)
    assert (
        table["p_regret_against_joint"]["worst"] == scores.paired_test(one[0].regret, one[1].regret, seed=3).p
    )
    assert table["matrix_spearman"]["perfect"] == pytest.approx(1)
    assert table["matrix_p_mantel"]["perfect"] == table["matrix_p_floor"] == 1e-4
    assert table["ceiling_top1_seeds"] == scores.agreement(gain)
    assert table["ceiling_top1_halves"] == scores.agreement(gain[:, ::-1])
    assert table["ceiling_top1_transpose"] == scores.transpose_top1(truth)
    assert (table["n_targets"], table["n_seeds"], table["mean_candidates"]) == (9, 2, 8)
    assert table["note"].startswith("Top-1 of joint: ") and "on 9 targets" in table["note"]


def test_table_within_groups_and_with_one_seed() -> None:
    gain = random_matrix(7, "gain")[None]
    mask = scores.within_groups(["a"] * 4 + ["b"] * 3)
    table = scores.score_table({"joint": gain[0]}, gain, mask)
    assert np.isnan(table["ceiling_top1_seeds"])
    assert table["random_top1"] == pytest.approx((4 / 3 + 3 / 2) / 7)
    assert not any(metric.startswith(("matrix", "p_")) for metric in table)
    assert table["n_targets"] == 7 and table["mean_candidates"] == pytest.approx(18 / 7)
    alone = scores.score_table({"other": gain[0]}, gain, scores.within_groups(list("abcdefg")))
    assert alone["n_targets"] == 0 and np.isnan([alone["top1"]["other"], alone["max_regret"]["other"]]).all()


def test_subsets_average_over_every_set_of_candidates() -> None:
    gain, guess = random_matrix(6, "gain"), np.round(3 * random_matrix(6, "guess"))
    found = scores.subset_scores(
        {"guess": guess, "perfect": gain, "none": 0 * gain}, gain[None], count=3, draws=4_000
    )
    top1, regret = [], []
    for j in range(6):
        for three in itertools.combinations([i for i in range(6) if i != j], 3):
            mask = np.zeros((6, 6), dtype=bool)
            mask[list(three), j] = True
            one = scores.target_scores(guess, gain, mask)
            top1.append(one.top1[j])
            regret.append(one.regret[j])
    assert found["top1"]["guess"] == pytest.approx(np.mean(top1), abs=0.02)
    assert found["mean_regret"]["guess"] == pytest.approx(np.mean(regret), abs=0.01)
    assert found["top1"]["perfect"] == 1 and found["max_regret"]["perfect"] == 0
    assert found["top1"]["none"] == pytest.approx(1 / 3, abs=1e-12) and found["random_top1"] == 1 / 3
    assert found["max_regret"]["none"] > found["mean_regret"]["none"] > 0


def test_a_subset_of_all_candidates_is_the_whole() -> None:
    gain, guess = random_matrix(6, "gain"), random_matrix(6, "guess")
    found = scores.subset_scores({"guess": guess}, gain, count=5, draws=3)
    whole = scores.target_scores(guess, gain)
    assert found["top1"]["guess"] == pytest.approx(whole.top1.mean())
    assert found["top3"]["guess"] == pytest.approx(whole.top3.mean())
    assert found["mean_regret_relative"]["guess"] == pytest.approx(whole.regret_relative.mean())
    assert found["max_regret"]["guess"] == pytest.approx(whole.regret.max())
