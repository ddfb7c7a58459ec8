"""Update the tables of README and docs with the results: `python -m benchmarks.tables`."""

from benchmarks.tables import pages, updated

for page in pages():
    text = page.read_text()
    if (new := updated(text)) != text:
        page.write_text(new)
        print(f"{page.name}: updated")
