from pathlib import Path


def test_the_words_are_counted():
    assert Path("/app/words.txt").read_text().strip() == "3"


def test_the_text_is_as_it_was():
    assert Path("/app/text.txt").read_text() == "one two three\n"
