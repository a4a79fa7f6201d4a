"""The report of a synthetic store: claims, gaps, files, and the page in a real browser."""

import csv
import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from synthetic_runs import synthetic_run

from analysis.__main__ import main
from analysis.claims import VERDICTS, judge, read_claims, read_paper
from analysis.errors import AnalysisError
from analysis.figures.regret_curve import regrets
from analysis.load import RunFolder
from analysis.reporting import report
from analysis.reporting.gather import gather

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("synthetic")
    runs = root / "runs"
    synthetic_run(runs / "main")
    synthetic_run(
        runs / "sweep" / "0",
        num_features=1024,
        transfer=False,
        finished="2025-12-31T00:00:00+00:00",
        metrics={"sketch": {"rmse_joint": 0.04, "signature_bytes": 4096}},
    )
    synthetic_run(runs / "smoke", smoke=True, model="smoke-model")
    synthetic_run(runs / "failed", status="failed", error="CostError: out of\nmemory", job="cost")
    synthetic_run(runs / "v", job="verbalizer_shift", metrics={"top1": {"error": 0.5, "joint": None}})
    text = report([runs], root / "report")
    return runs, root / "report", text


def rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_claims_rest_on_numbers_of_the_paper():
    numbers = read_paper()
    assert numbers["top1"].value == 0.457 and not numbers["top1"].inferred
    assert numbers["state_bytes"].value == 196608 and numbers["state_bytes"].inferred
    assert {name for name in numbers if numbers[name].inferred} >= {
        "candidates",
        "smiles_pairs",
        "verbalizer_targets",
    }
    claims = read_claims()
    assert len({claim.id for claim in claims}) == len(claims)
    used = {str(number) for claim in claims for number in claim.paper}
    assert used <= {str(number) for number in numbers.values()}
    assert all(claim.reproduced for claim in claims)


def test_verdicts_follow_the_rule(tmp_path):
    claim = next(claim for claim in read_claims() if claim.id == "source_selection_top1")
    folder = synthetic_run(tmp_path / "a")
    held = json.loads((folder / "metrics.json").read_text())

    def verdict(top1, low, **more):
        metrics = held | {"top1": {"joint": top1}, "top1_interval": {"joint": [low, 0.9]}} | more
        (folder / "metrics.json").write_text(json.dumps(metrics))
        return judge(claim, RunFolder.open(folder))

    assert verdict(0.5, 0.3).verdict == "reproduced"
    assert verdict(0.4, 0.3).verdict == "partly"
    assert verdict(0.5, 0.1).verdict == "not"
    found = verdict(0.5, 0.3)
    assert (found.value, found.low, found.high, found.gap) == ("0.5000", "0.3000", "0.9000", "")
    missing = verdict(0.5, 0.3, random_top1=None)
    assert (missing.verdict, missing.gap) == ("not run", "a: random_top1 is undefined in the run")
    scaled = replace(claim, reproduced=["top1.joint >= 3 * random_top1"], partly=[])
    assert judge(scaled, RunFolder.open(synthetic_run(tmp_path / "b"))).verdict == "reproduced"
    scaled = replace(claim, reproduced=["top1.joint >= 4 * random_top1"], partly=[])
    assert judge(scaled, RunFolder.open(tmp_path / "b")).verdict == "not"


def test_a_condition_that_is_none_is_refused(tmp_path):
    file = tmp_path / "claims.yaml"
    file.write_text("- {id: x, claim: c, paper: [], job: j, value: v, reproduced: ['a is 3']}\n")
    with pytest.raises(AnalysisError, match="claim 'x' has a condition that is none: 'a is 3'"):
        read_claims(file)
    file.write_text("- {id: x, claim: c, paper: [nothing], job: j, value: v, reproduced: ['a > 3']}\n")
    with pytest.raises(AnalysisError, match="rests on 'nothing', not in paper.yaml"):
        read_claims(file)


def test_results_come_from_the_last_finished_run_and_never_from_smoke(made):
    runs, _, text = made
    held = gather(runs)
    assert sorted(held.name(run) for run in held.chosen) == ["main", "v"]
    assert [held.name(run) for run in held.siblings(held.of("source_selection")[0])] == ["main", "sweep/0"]
    assert text.startswith(f"5 runs in {runs}, 2 shown as results.")
    use = {row["run"]: row["use"] for row in rows(made[1] / "tables" / "runs.csv")}
    assert use["smoke"] == "not used: smoke run"
    assert use["failed"] == "not used: failed"
    assert use["sweep/0"] == "one of several: in the table of settings"


def test_missing_runs_and_numbers_are_named_gaps(made):
    table = rows(made[1] / "tables" / "claims.csv")
    assert {row["verdict"] for row in table} <= set(VERDICTS)
    assert all(cell.strip() for row in table for cell in row.values())
    by_claim = {row["claim"]: row for row in table}
    storage = by_claim["The exact error matrix takes 61 GiB a task at K = 128,256"]
    assert (storage["verdict"], storage["ours"]) == ("not run", "not run")
    assert storage["gap"] == "no result of job cost: its runs are 1 failed"
    joint = by_claim["With a fixed prefix and shifted labels, FisherSketch finds the source"]
    assert joint["gap"] == "v: top1.joint is undefined in the run"
    assert (
        by_claim["Across SMILES corpora, alignment follows the perplexity reduction"]["gap"]
        == "no run of job cross_domain on smiles7"
    )
    size = by_claim["A task is kept in 16 KB"]
    assert (size["verdict"], size["run"], size["ours"]) == ("reproduced", "main", "16,384")
    gaps = rows(made[1] / "tables" / "gaps.csv")
    of_claims = [gap for gap in gaps if not gap["claim"].startswith("section ")]
    assert len(of_claims) == sum(row["gap"] != "none" for row in table)
    assert [gap["claim"] for gap in gaps if gap not in of_claims] == [
        "section Verbalizer shift: tiny-model, synthetic7 (7 domains)"
    ]


def test_every_table_and_figure_is_a_file_that_the_page_names(made):
    folder = made[1]
    kinds: dict[str, set[str]] = {}
    for file in (folder / "tables").iterdir():
        kinds.setdefault(file.stem, set()).add(file.suffix)
    assert all(found == {".csv", ".md", ".tex"} for found in kinds.values())
    page = (folder / "report.html").read_text()
    links = set(re.findall(r'href="((?:tables|figures)/[^"]+)"', page))
    assert {
        str(file.relative_to(folder)) for part in ("tables", "figures") for file in (folder / part).iterdir()
    } == links
    assert sum("error_against_size" in link for link in links) == 2
    pictures = re.findall(r'<img src="([^"]{30})[^"]*" alt="([^"]*)"', page)
    assert len(pictures) == sum(link.endswith(".png") for link in links)
    assert all(source.startswith("data:image/png;base64,") and len(words) > 30 for source, words in pictures)
    assert not re.findall(r'(?:src|srcset)="(?!data:)', page)
    assert not re.findall(r'href="(?!#|data:|tables/|figures/)', page)
    markdown = (folder / "report.md").read_text()
    assert set(re.findall(r"\]\((figures/[^)]+)\)", markdown)) == {
        link for link in links if link.endswith(".png")
    }


def test_latex_tables_balance_and_escape(made):
    text = (made[1] / "tables" / "claims.tex").read_text()
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    assert not re.search(r"(?<!\\)[_%#$]", body.replace(r"$\pm$", "").replace(r"$\times$", ""))
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text).group(1)
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns) - 1}


def test_the_same_store_gives_the_same_bytes(made, tmp_path):
    runs, folder, _ = made
    report([runs], tmp_path / "again")
    for file in [
        *folder.rglob("*.csv"),
        *folder.rglob("*.md"),
        *folder.rglob("*.tex"),
        folder / "report.html",
    ]:
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(folder)).read_bytes(), file.name


def test_a_result_without_its_arrays_is_a_gap(tmp_path):
    folder = synthetic_run(tmp_path / "runs" / "a")
    shutil.rmtree(folder / "arrays")
    report([tmp_path / "runs"], tmp_path / "report")
    gaps = [row["gap"] for row in rows(tmp_path / "report" / "tables" / "gaps.csv")]
    assert any(gap.endswith("the run holds no arrays/alignments.npz") for gap in gaps)


def test_what_is_no_store_or_no_report_folder_is_refused(tmp_path, capsys, monkeypatch):
    with pytest.raises(AnalysisError, match="holds no run folder"):
        report([tmp_path], tmp_path / "report")
    synthetic_run(tmp_path / "runs" / "a", transfer=False)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(AnalysisError, match="mine: holds something that is no report"):
        report([tmp_path / "runs"], tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    assert main(["report"]) == 1
    assert capsys.readouterr().err == "error: report: no folder runs or results here; name the records\n"


def test_cost_of_a_synthetic_run_is_drawn_against_the_output_size(tmp_path):
    folder = synthetic_run(tmp_path / "runs" / "c", job="cost")
    entries = {
        "method": np.array(["dense", "dense", "exact", "exact"]),
        "error_dim": np.array([512, 4096] * 2),
    }
    entries["seconds_per_token"] = np.array([0.001, 0.008, 0.1, np.nan])
    np.savez(folder / "arrays" / "cost.npz", **entries)
    assert main(["show", str(folder)]) == 1
    np.savez(folder / "arrays" / "cost.npz", **entries, bytes_per_task=np.array([16384, 16384, 2**20, 2**26]))
    assert main(["show", str(folder)]) == 0
    assert rows(folder / "tables" / "cost.csv")[3]["seconds_per_token"] == "nan"
    assert (folder / "figures" / "cost_against_vocabulary.png").is_file()


def test_regret_counts_ties_by_their_mean():
    gain = np.array([[9.0, 1, 2], [3, 9, 5], [1, 4, 9]])
    scores = np.array([[9.0, 0, 1], [0.5, 9, 1], [np.nan, 1, 9]])
    np.testing.assert_allclose(regrets(scores, gain), [0, 0, 1.5])


PROBE = """
<script>
const column = (n) => [...document.querySelectorAll("#runs tbody tr")].map((row) => row.cells[n].textContent);
const button = document.querySelectorAll("#runs th button")[0];
const found = {before: column(0)};
button.click(); found.up = column(0); button.click(); found.down = column(0);
found.sorted = button.parentElement.getAttribute("aria-sort");
const width = document.documentElement.clientWidth;
found.width = width;
found.wide = document.documentElement.scrollWidth;
found.pictures = [...document.images].map(
  (image) => image.naturalWidth > 0 && image.closest(".picture").clientWidth <= width);
found.drawn = Math.min(...[...document.images].map((image) => image.clientWidth));
found.paper = getComputedStyle(document.body).backgroundColor;
found.dark = [...document.images].every((image) => image.currentSrc !== image.src);
found.head = getComputedStyle(document.querySelector("#claims thead")).display;
const out = document.createElement("pre"); out.id = "probe"; out.textContent = JSON.stringify(found);
document.body.append(out);
</script>
"""


def browse(page, *flags, timeout=60):
    command = [CHROMIUM, *BROWSER, *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True).stdout


@pytest.fixture(scope="module")
def probed(made):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install the package chromium")
    page = made[1].parent / "probe.html"
    text = (made[1] / "report.html").read_text()
    page.write_text(text.replace("</body>", PROBE + "</body>"))
    return page


def found(page, *flags):
    text = browse(page, "--dump-dom", "--host-resolver-rules=MAP * ~NOTFOUND", *flags)
    return json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', text, re.S).group(1)))


def test_page_sorts_tables_and_shows_every_figure(probed):
    seen = found(probed, "--window-size=1280,900")
    assert seen["before"] == ["failed", "main", "smoke", "sweep/0", "v"]
    assert seen["up"] == seen["before"] and seen["down"] == seen["before"][::-1]
    assert seen["sorted"] == "descending"
    assert len(seen["pictures"]) == 7 and all(seen["pictures"])
    assert (seen["paper"], seen["dark"]) == ("rgb(255, 255, 255)", False)
    assert seen["head"] == "table-header-group"


def test_page_fits_a_narrow_window_in_dark_mode(probed):
    seen = found(probed, "--window-size=400,900", "--blink-settings=preferredColorScheme=0")
    assert seen["width"] <= 640 and seen["wide"] <= seen["width"]
    assert seen["head"] == "none"
    assert all(seen["pictures"]) and seen["drawn"] >= 600  # wide enough to read, inside a box that scrolls
    assert seen["dark"] and seen["paper"] == "rgb(22, 24, 29)"


def test_screenshot_shows_the_page(probed, tmp_path):
    file = Path(tmp_path / "page.png")
    browse(probed, f"--screenshot={file}", "--window-size=1000,1400")
    with Image.open(file) as image:
        assert image.size == (1000, 1400)
        grey = np.asarray(image.convert("L"))
    assert (grey > 250).mean() > 0.5  # paper
    assert (grey < 80).mean() > 0.005  # ink
