"""`python -m tests.tools.make.helm_chart`: writes the chart's templates, files, values and schema."""

from tests.tools.make.helm_chart import chart


def main() -> None:
    """Write it; files that it no longer has are removed."""
    texts = chart.made()
    for path in chart.written():
        path.unlink()
    for name, text in texts.items():
        target = chart.CHART / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
