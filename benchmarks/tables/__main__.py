"""Bring README and docs up to date with the results: `python -m benchmarks.tables`."""

from benchmarks.tables import pages, renewed

for page in pages():
    text = page.read_text()
    if (new := renewed(text)) != text:
        page.write_text(new)
        print(f"{page.name} is new")
