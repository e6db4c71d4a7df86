"""The default judge: its data, its features, its weights, its program."""

import asyncio
import io
import json
import re
import statistics
import sys
import time
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envs.chat import phrasings
from rl.judge import training
from rl.judge.__main__ import main
from rl.judge.augment import variants
from rl.judge.classifier import SCORES, WEIGHTS, Classifier, Network, softmax
from rl.judge.data.compose import PARTS, compose
from rl.judge.embeddings import WIDTH, Embedder
from rl.judge.features import MEANING, Texts, features, halves
from rl.judge.labelled import exchange_of
from rl.judge.pipeline import build
from rl.judge.settings import JudgeConfig

MAX_WEIGHT_BYTES = 1_500_000


@cache
def rows(part: str) -> list[dict[str, Any]]:
    return compose(part)


def said(row: dict[str, Any]) -> str:
    return next((m["content"] for m in row["next_state"] if m["role"] == "user"), "").lower()


def no_meaning(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(WIDTH, np.float32)


def test_a_part_is_composed_alike_each_time_and_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows are not kept in files: weights could not be made again if they differed."""
    assert compose("train") == rows("train")
    assert main(["rows", "part=test"]) == 0
    assert list(map(json.loads, capsys.readouterr().out.splitlines())) == rows("test")
    assert main(["rows", "part=none"]) == 2
    assert "part=none: the parts are train, test" in capsys.readouterr().err


def test_the_parts_share_no_style_no_scene_and_no_sentence() -> None:
    parts = [rows(part) for part in PARTS]
    assert sum(map(len, parts)) >= 3500
    for one, other in combinations(parts, 2):
        for read in (
            lambda row: row["style"],
            lambda row: row["history"][-1]["content"].lower(),
            lambda row: said(row) or row["id"],
        ):
            shared = set(map(read, one)) & set(map(read, other))
            assert not shared
    for part in parts:
        assert {row["label"] for row in part} == {-1, 0, 1}
        assert len({row["kind"] for row in part}) >= 12


def sentences(text: str) -> set[str]:
    """Return the sentences of three words and more, without marks; shorter ones are everyone's."""
    found = (re.findall(r"\w+", part.lower()) for part in re.split(r"[.!?。！？:;\n]+", text))
    return {" ".join(words) for words in found if len(words) > 2}


def test_no_sentence_of_the_simulated_users_is_trained_on() -> None:
    """Else ``benchmarks.judge data=simulated`` would measure what the judge knows by heart."""
    simulated: set[str] = set()
    for lines in phrasings.corrections().values():
        simulated |= {s for _, line in lines for s in sentences(line)}
    for table in (phrasings.AGAIN, phrasings.THANKS, phrasings.BRIDGES, phrasings.CHANGES,
                  phrasings.FAREWELLS, phrasings.GIVE_UPS, phrasings.ASIDES):  # fmt: skip
        simulated |= {s for lines in table.values() for line in lines for s in sentences(line)}
    assert len(simulated) > 300
    shared = simulated & {s for row in rows("train") for s in sentences(said(row))}
    assert not shared


def test_open_words_of_a_line_are_filled_and_keep_its_label() -> None:
    made = [row for row in rows("train") if row["kind"] == "thanks_then_question"]
    assert len(made) > 150 and {row["label"] for row in made} == {1}
    assert len({said(row) for row in made}) > 0.9 * len(made)
    for row in rows("train"):
        assert not re.search(r"\{[^{}]*\|[^{}]*\}|\$[QN]\b", said(row)), row["id"]


def test_the_first_sentence_is_read_alone() -> None:
    """A verdict before a long question was lost in the question."""
    assert halves("Thanks. How tall is it?") == ("Thanks.", "How tall is it?")
    assert halves("对。下一个问题") == ("对。", "下一个问题")
    assert halves("no, 3.5 of them") == ("no, 3.5 of them", "")
    heard: list[str] = []

    def listen(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        heard.append(text)
        return no_meaning(text)

    row = features(Texts("a", "b", "Thanks. How tall is it?"), listen)
    assert "Thanks." in heard and row[MEANING:].any()


def test_spellings_are_repeatable_and_differ() -> None:
    text = "Thank you, that is exactly what I needed."
    assert variants(text, 1, 5, "0") == variants(text, 1, 5, "0")
    assert len({text, *variants(text, 1, 5, "0")}) > 3


def test_asking_again_shows_in_the_features() -> None:
    asked = "How do I freeze the first row?"
    again = features(Texts(asked, "View, Freeze.", "how do i freeze the FIRST row"), no_meaning)
    fresh = features(Texts(asked, "View, Freeze.", "how tall is the tower"), no_meaning)
    assert not np.allclose(again[MEANING:], fresh[MEANING:])


def test_training_separates_and_repeats_itself(tmp_path: Path) -> None:
    words = {
        1: ("thanks", "perfect", "great"),
        -1: ("wrong", "no", "bad"),
        0: ("why", "what", "how"),
    }
    made = [
        {"history": [], "reply": {"role": "assistant", "content": "x"}, "label": label, "style": s,
         "next_state": [{"role": "user", "content": f"{word} {s}"}]}
        for label, list_ in words.items() for word in list_ for s in "ab"
    ]  # fmt: skip
    settings = training.Settings(epochs=30, hidden=16, learning_rate=0.02)
    first, second = (tmp_path / "1.npz", tmp_path / "2.npz")
    for out in (first, second):
        found = training.train(no_meaning, made, out=out, settings=settings)
        assert found["by_style"]["accuracy"] > 0.8
    assert np.array_equal(Network.load(first).hidden_FH, Network.load(second).hidden_FH)


def test_weights_in_the_repository_fit_the_features_and_are_small() -> None:
    assert WEIGHTS.stat().st_size < MAX_WEIGHT_BYTES
    width = features(Texts("a", "b", "c"), no_meaning).shape[0]
    network = Network.load()
    assert network.hidden_FH.shape[0] == width and network.scores_C.shape == (len(SCORES),)


def test_unsure_verdicts_and_silence_of_the_user_are_no_verdicts() -> None:
    row = rows("test")[0]
    assert Classifier(1.0, no_meaning).judge(exchange_of(row)).score == 0
    alone = exchange_of({**row, "next_state": [{"role": "tool", "content": "42"}]})
    found = asyncio.run(Classifier(embed=no_meaning)(alone))
    assert (found.score, found.source) == (0, "default")


def test_the_program_judges_lines_and_names_a_bad_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = next(r for r in rows("test") if r["kind"] == "tool_failure")
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(row) + "\n\n" + json.dumps(row)))
    assert main(["score", "judge=rules"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["id"], line["score"]) for line in lines] == [(row["id"], -1)] * 2
    for bad, why in (('{"history": []}', "line 1: reply is missing"), ("{", "line 1: not JSON")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(bad))
        assert main(["score", "judge=rules"]) == 2
        assert why in capsys.readouterr().err
    assert main(["score", "judge=gpt"]) == 2 and main(["score", "votez=3"]) == 2
    assert main([]) == 2


def test_the_temperature_mends_overconfidence() -> None:
    """A judge that says 99% and is right in 2 of 3 cases must say less."""
    logits_NC = np.asarray([[6.0, 0.0, 0.0]] * 3)
    classes_N = np.asarray([0, 0, 1])
    divisor = training.temperature(logits_NC, classes_N)
    sure = softmax(logits_NC / divisor)[0, 0]
    assert softmax(logits_NC)[0, 0] > 0.99 and 0.55 < sure < 0.75


def test_training_on_a_file_names_what_is_wrong_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    good = {**rows("test")[0], "style": "one"}
    for lines, why in (
        ([{**good, "label": 2}], "line 1: label is 2; it is one of -1, 0, 1"),
        ([{"label": 1}], "line 1: history is missing"),
        ([good, good], "two styles"),
    ):
        file.write_text("\n".join(map(json.dumps, lines)))
        assert main(["train", f"data={file}", f"out={tmp_path / 'w.npz'}"]) == 2
        assert why in capsys.readouterr().err
    assert main(["train", f"data={tmp_path / 'none'}"]) == 2


def test_equal_meaning_is_near_across_languages_and_batches() -> None:
    """The judge hears sixteen languages only if thanks lie beside thanks in each."""
    embed = Embedder()
    texts = ["thank you very much", "merci beaucoup", "谢谢", "that is wrong", "das ist falsch"]
    thanks, french, chinese, wrong, german = map(embed, texts)
    assert thanks.shape == (WIDTH,) and thanks @ thanks == pytest.approx(1.0, abs=1e-4)
    assert min(thanks @ french, thanks @ chinese, wrong @ german) > 0.5 > abs(thanks @ wrong)
    many = embed.many(texts)
    assert all(np.allclose(many[text], embed(text), atol=1e-4) for text in texts)
    assert not embed("  ").any()


def test_the_default_judge_is_right_often_and_fast() -> None:
    """Wide margins around what docs/judging.md reports, so that only a real loss fails."""
    pipeline = build(JudgeConfig())
    truth, found, seconds = [], [], []

    async def judge_all() -> None:
        await pipeline.open()
        for row in rows("test"):
            exchange = exchange_of(row)
            start = time.thread_time()
            found.append((await pipeline(exchange)).score)
            seconds.append(time.thread_time() - start)
            truth.append(row["label"])

    asyncio.run(judge_all())
    rates = training.rates(truth, found)
    assert rates["bad_called_good"] < 0.16 and rates["good_called_bad"] < 0.2
    assert rates["accuracy"] > 0.7
    assert statistics.median(seconds) < 0.1
