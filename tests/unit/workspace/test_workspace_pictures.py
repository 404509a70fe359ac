"""The transcripts of the docs: which commands are run again, and where their outputs go."""

from tests.tools.make import pictures

PAGE = """Text
```console
$ carico up
$ carico explain a-b
old
  line $ 5
```
More
```console
$ carico explain a-b
older
```
"""


def test_outputs_replace_those_of_their_commands_alone() -> None:
    assert list(pictures.blocks(PAGE)) == [
        ("carico up", ""), ("carico explain a-b", "old\n  line $ 5\n"), ("carico explain a-b", "older\n"),
    ]  # fmt: skip
    text = pictures.rewritten(PAGE, ["", "first \\1\n", "second\n"])
    assert text == PAGE.replace("old\n  line $ 5\n", "first \\1\n").replace("older\n", "second\n")


def test_the_page_has_what_pictures_are_taken_of() -> None:
    texts = [page.read_text(encoding="utf-8") for page in (pictures.PAGE, pictures.RECOMMENDATIONS)]
    found = [list(pictures.blocks(text)) for text in texts]
    commands = [command for each in found for command, _ in each]
    assert all(any(command.startswith(part) for command in commands) for part in pictures.PAUSES_S)
    assert all(sum(bool(output) for _, output in each) >= least for each, least in zip(found, (4, 1), strict=True))
    for text, each in zip(texts, found, strict=True):
        assert pictures.rewritten(text, [output for _, output in each]) == text
