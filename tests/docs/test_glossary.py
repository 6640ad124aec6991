"""The glossary has each word once, in order, and only words that the documents use."""

from __future__ import annotations

import re

from tests.docs.pages import README, ROOT

GLOSSARY = ROOT / "docs/glossary.md"
WORDS = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(), re.MULTILINE)
# The reference has the help texts, and every word of a name.
PAGES = [README, *(page for page in (ROOT / "docs").glob("*.md") if page.name not in ("glossary.md", "reference.md"))]
USED = " ".join(" ".join(page.read_text().lower().split()) for page in PAGES)


def test_each_word_is_there_once_and_in_order() -> None:
    assert len(WORDS) > 40
    assert sorted(set(WORDS)) == WORDS


def test_the_documents_use_every_word() -> None:
    assert [word for word in WORDS if not re.search(rf"\b{re.escape(word)}", USED)] == []


def test_the_words_of_the_design_are_there() -> None:
    design = {"position", "mark", "fence", "ledger", "slice", "batch", "run", "sequence", "quarantine", "request"}
    assert design - set(WORDS) == set()


def test_the_readme_leads_to_it() -> None:
    assert "](docs/glossary.md)" in README.read_text()
