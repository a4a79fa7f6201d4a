import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from saved_models import WORDS, word_tokenizer

from experiments.domains.pieces import cut, first_characters, shuffled_pieces
from experiments.domains.spans import LONG_LINE, HeldOutText, segments, spans
from experiments.domains.windows import cut_windows, encode, leading_token, tokens_per_window

TEXTS = st.text(alphabet=st.sampled_from("abc .;\n\r\t}é。"), max_size=2000)


@given(TEXTS)
def test_segments_are_the_text(text):
    assert "".join(segments(text)) == text


@given(TEXTS, st.integers(16, 600))
def test_pieces_are_the_document_and_none_is_too_long(text, characters):
    pieces = list(cut(text, characters))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= characters for piece in pieces)


@given(TEXTS)
def test_a_span_is_never_in_two_pieces(text):
    assert [span for piece in cut(text, 10 * LONG_LINE) for span in spans(piece, 1)] == spans(text, 1)


def test_a_document_of_one_line_is_cut_too():
    pieces = list(cut("[" + ", ".join(map(str, range(1000))) + "]", 100))
    assert len(pieces) > 40
    assert all(50 < len(piece) <= 100 for piece in pieces[:-1])


def test_sentences_of_a_long_line_are_spans():
    sentences = [f"This is sentence number {number} of the line." for number in range(10)]
    assert spans(" ".join(sentences), 20) == sentences
    assert spans("A short line. It has two sentences.", 20) == ["A short line. It has two sentences."]


def test_spans_are_compared_without_their_white_space():
    assert spans("\tif  (offset < 0 ||\tlength) {  \n}", 20) == ["if (offset < 0 || length) {"]


def test_the_order_of_pieces_is_fixed():
    documents = [f"document {number}" for number in range(5)]
    order = [piece[-1] for piece in shuffled_pieces(documents, 512, seed=0)]
    assert order == ["2", "1", "3", "0", "4"]  # by the sha256 of "0\ndocument 2" and so on
    assert [piece[-1] for piece in shuffled_pieces(documents, 512, seed=1)] != order
    # Where a text stands does not depend on the others.
    assert [piece[-1] for piece in shuffled_pieces(documents[::2], 512, seed=0)] == [
        number for number in order if number in "024"
    ]


def test_a_text_that_comes_again_is_one_piece():
    assert shuffled_pieces(["same  text", "same text", " same text\n", "other", "  \n"], 512, 0) in (
        ["same  text", "other"],
        ["other", "same  text"],
    )


def test_reading_stops_at_a_number_of_characters():
    def documents():
        yield "abc"
        yield "defg"
        raise AssertionError("read too far")

    assert list(first_characters(documents(), 5)) == ["abc", "de"]


def test_held_out_text_loses_the_spans_that_are_known():
    known = "def known_function_of_both(self):"
    held_out = HeldOutText([f"class A:\n    {known}\n        return 1\n", known, "short\n"], {known}, 20)
    assert list(held_out) == ["class A:\n        return 1", "short"]
    assert held_out.dropped == 2
    assert held_out.met == [known, known]
    assert held_out.share({known}) == 1.0
    assert held_out.share({"other"}) == 0.0
    assert HeldOutText([], {known}, 20).share({known}) == 0.0


@pytest.mark.parametrize("adds_bos", [True, False])
def test_windows_are_the_stream_with_one_bos_at_most(adds_bos):
    tokenizer = word_tokenizer(adds_bos=adds_bos)
    ids, used = encode((f"w{n} w{n + 1}" for n in range(0, WORDS, 2)), tokenizer, enough=41)
    assert ids == list(range(2, 2 + 42))
    assert used == [f"w{n} w{n + 1}" for n in range(0, 42, 2)]
    width = tokens_per_window(tokenizer, 9)
    windows = cut_windows(ids, tokenizer, 4, 9)
    assert windows.shape == (4, 10) and windows.dtype == torch.int64
    if adds_bos:
        assert leading_token(tokenizer) == 0 and width == 9
        assert windows[:, 0].tolist() == [0] * 4
        assert windows[:, 1:].flatten().tolist() == ids[:36]
    else:
        assert leading_token(tokenizer) is None and width == 10
        assert windows.flatten().tolist() == ids[:40]


def test_the_small_model_has_no_leading_token(small_model):
    assert leading_token(small_model.tokenizer) is None


def test_pieces_are_read_a_few_at_a_time():
    read = 0

    def pieces():
        nonlocal read
        for number in range(WORDS):
            read += 1
            yield f"w{number}"

    encode(pieces(), word_tokenizer(adds_bos=False), enough=10)
    assert read <= 16
