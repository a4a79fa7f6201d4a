"""Scores by candidates, and a score that is chosen on one half of the targets and reported on the other."""

import numpy as np
import pytest

from experiments.draws import uniforms
from experiments.errors import UserError
from experiments.scores import (
    combined_scores,
    score_sections,
    score_table,
    selected_score,
    sibling_mask,
    subset_scores,
    target_scores,
    within_groups,
)

T = 30
GROUPS = [f"group {k // 10}" for k in range(T)]


def gains(count=T, seeds=2):
    return uniforms("gain", 0, (seeds, count, count))


def noisy(gain, label, amount):
    return gain.mean(axis=0) + amount * uniforms(label, 1, gain.shape[1:])


def test_siblings_are_families_and_shared_text():
    overlap = np.zeros((4, 4))
    overlap[3, 0] = 0.3
    mask = sibling_mask(["a", "b", "c", "d"], {"family": ["b", "c"]}, overlap)
    left_out = np.argwhere(~mask & ~np.eye(4, dtype=bool)).tolist()
    assert left_out == [[1, 2], [2, 1], [3, 0]]  # text shared one way leaves out one way


def test_sections_are_the_tables_of_their_candidates():
    gain = gains()
    estimators = {"joint": noisy(gain, "a", 0.5), "random": np.zeros((T, T))}
    no_siblings = sibling_mask([str(k) for k in range(T)], {"family": ["3", "4"]}, np.zeros((T, T)))
    table = score_sections(estimators, gain, GROUPS, no_siblings, half_gains=gain)
    assert table["top1"] == score_table(estimators, gain)["top1"]
    assert table["ceiling_top1_halves"] == table["ceiling_top1_seeds"]
    inside = score_table(estimators, gain, within_groups(GROUPS))
    assert table["within_groups"]["top1"] == inside["top1"]
    assert table["within_groups"]["random_top1"] == pytest.approx(1 / 9)
    assert table["without_siblings"]["n_sibling_pairs"] == 2
    few = subset_scores(estimators, gain, count=24)
    assert table["candidates_24"] == few
    assert few["random_top1"] == 1 / 24 and few["top1_over_random"]["random"] == pytest.approx(1)
    assert table["top1_over_random"]["random"] == pytest.approx(1)
    assert table["top1_over_random"]["joint"] == pytest.approx(29 * table["top1"]["joint"])


def test_sections_without_candidates_are_left_out():
    gain = gains(4)
    table = score_sections({"joint": gain[0]}, gain, list("abcd"), ~np.eye(4, dtype=bool))
    assert not {"within_groups", "without_siblings", "candidates_24"} & table.keys()


def test_sums_of_ranks_and_of_standard_scores_are_per_target():
    first = np.array([[9.0, 1.0, 0.0], [3.0, 9.0, 4.0], [np.nan, 5.0, 9.0]])
    second = np.array([[0.0, 7.0, 2.0], [1.0, 0.0, 2.0], [2.0, 7.0, 0.0]])
    found = combined_scores({"a": first, "b": second})
    assert list(found) == ["a", "b", "rank(a) + rank(b)", "z(a) + z(b)"]
    off = ~np.eye(3, dtype=bool)
    # Target 0 has sources 1, 2: a ranks 2, 1 (NaN lowest), b 1, 2. Target 1 has 0, 2: a 1, 2, b tied at 1.5.
    assert found["rank(a) + rank(b)"][off].tolist() == [2.5, 2.5, 3.0, 3.5, 3.0, 3.5]
    # With two sources a standard score is -1 or 1, and 0 where they are alike.
    z = found["z(a) + z(b)"]
    assert z[0, 1] == pytest.approx(-1) and z[2, 1] == pytest.approx(1)
    assert z[1, 2] == pytest.approx(1) and z[0, 2] == pytest.approx(-1)


def test_a_better_score_is_found_and_reported_on_other_targets():
    gain = gains()
    estimators = {
        "joint": noisy(gain, "a", 3.0),
        "good": noisy(gain, "b", 0.05),
        "bad": noisy(gain, "c", 9.0),
    }
    found = selected_score(estimators, gain)
    for criterion in ("by_top1", "by_mean_regret", "by_mean_spearman"):
        report = found[criterion]
        assert report["chosen"] == "good" and report["chosen_share"] > 0.9
        assert report["top1"] == pytest.approx(
            target_scores(estimators["good"], gain.mean(0)).top1.mean(), abs=0.05
        )
        assert report["top1_reference"] == pytest.approx(score_table(estimators, gain)["top1"]["joint"])
        assert report["p_top1_against_joint"] < 0.01 and report["p_regret_against_joint"] < 0.01
        assert report["top1_difference_interval"][0] > 0 and report["regret_difference_interval"][1] < 0
        assert report["p_spearman_against_joint"] < 0.01 and report["spearman_difference_interval"][0] > 0
        assert report["mean_spearman_reference"] == pytest.approx(
            score_table(estimators, gain)["mean_spearman"]["joint"]
        )
    assert found["n_scores"] == 3 + 2 * 3


def test_luck_on_the_choosing_half_does_not_show_on_the_reporting_half():
    gain = gains(12)
    estimators = {name: uniforms(name, 2, (12, 12)) for name in ("joint", *"abcdefghij")}
    found = selected_score(estimators, gain)
    chance = 1 / 11
    assert found["by_all_targets"]["top1"]["top1"] > 3 * chance  # the best of 121 meaningless scores
    assert found["by_top1"]["top1"] < 2 * chance
    assert found["by_top1"]["p_top1_against_joint"] > 0.05
    again = selected_score(estimators, gain)
    assert again == found and selected_score(estimators, gain, seed=1) != found


def test_a_choice_needs_targets_and_a_reference():
    gain = gains(3)
    with pytest.raises(UserError, match="3 targets; halves of them need at least 4"):
        selected_score({"joint": gain[0]}, gain)
    with pytest.raises(UserError, match="reference=mean: must be one of joint"):
        selected_score({"joint": gain[0]}, gain, reference="mean")
