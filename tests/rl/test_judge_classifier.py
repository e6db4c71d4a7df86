"""The default judge: its data, its features, its weights, its program."""

import asyncio
import io
import json
import re
import statistics
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from envs.chat import phrasings
from rl.judge import training
from rl.judge.__main__ import main
from rl.judge.augment import variants
from rl.judge.classifier import SCORES, WEIGHTS, Classifier, Linear
from rl.judge.data.compose import HERE, PARTS, compose
from rl.judge.features import HASHED, MEANING, WIDTH, Texts, features, halves, letters
from rl.judge.labelled import exchange_of
from rl.judge.pipeline import build
from rl.judge.settings import JudgeConfig

MAX_WEIGHT_BYTES = 1_500_000


def rows(part: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / f"{part}.jsonl").read_text().splitlines()]


def said(row: dict[str, Any]) -> str:
    return next((m["content"] for m in row["next_state"] if m["role"] == "user"), "").lower()


def no_meaning(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(WIDTH, np.float32)


def test_the_files_are_what_the_parts_make() -> None:
    for part in PARTS:
        assert rows(part) == compose(part)


def test_the_parts_share_no_style_no_scene_and_no_sentence() -> None:
    parts = [rows(part) for part in PARTS]
    assert sum(map(len, parts)) >= 3500
    for one, other in combinations(parts, 2):
        for read in (
            lambda row: row["style"],
            lambda row: row["history"][-1]["content"].lower(),
            lambda row: said(row) or row["id"],
        ):
            assert not set(map(read, one)) & set(map(read, other))
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
    assert not simulated & {s for row in rows("train") for s in sentences(said(row))}


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


def test_letters_are_alike_across_processes_and_for_typing_errors() -> None:
    right, typed, other = map(letters, ("that is wrong", "taht is wrogn", "よくできました"))
    assert right.shape == (HASHED,) and right @ right == pytest.approx(1.0, abs=1e-5)
    assert right @ typed > 0.2 > abs(right @ other)
    assert int(np.flatnonzero(letters("ok"))[0]) == 74


def test_asking_again_shows_in_the_features() -> None:
    asked = "How do I freeze the first row?"
    again = features(Texts(asked, "View, Freeze.", "how do i freeze the FIRST row"), no_meaning)
    fresh = features(Texts(asked, "View, Freeze.", "how tall is the tower"), no_meaning)
    assert not np.allclose(again[MEANING + HASHED :], fresh[MEANING + HASHED :])


def test_training_separates_and_repeats_itself(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
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
    data.write_text("\n".join(map(json.dumps, made)))
    settings = training.Settings(spellings=1, iterations=30)
    first, second = (tmp_path / "1.npz", tmp_path / "2.npz")
    for out in (first, second):
        found = training.train(no_meaning, data=data, out=out, settings=settings)
        assert found["by_style"]["accuracy"] > 0.8
    assert np.array_equal(Linear.load(first).weights_FC, Linear.load(second).weights_FC)


def test_weights_in_the_repository_fit_the_features_and_are_small() -> None:
    assert WEIGHTS.stat().st_size < MAX_WEIGHT_BYTES
    width = features(Texts("a", "b", "c"), no_meaning).shape[0]
    assert Linear.load().weights_FC.shape == (width, len(SCORES))


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


@pytest.mark.model
def test_the_embedding_is_minilms() -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    from rl.judge.embeddings import Embedder, fetch

    folder = fetch()
    embed = Embedder(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    for text in ("no bold please, I told you", "hello", "Das stimmt nicht. 不对"):
        with torch.inference_mode():
            state = model(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)[0]
        assert np.allclose(embed(text), (state / state.norm()).numpy(), atol=1e-5)
    assert embed("  ").any() == np.False_


@pytest.mark.model
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
