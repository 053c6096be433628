"""The Python code of the READMEs runs as it is written, after the arrays that it speaks of."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def arrays() -> dict[str, Any]:
    random = np.random.default_rng(0)

    def vectors(count: int) -> Any:
        return random.standard_normal((count, 384), dtype=np.float32)

    def tokens(texts: Any) -> Any:
        """What an encoder returns for several texts, or for one."""
        each = [random.standard_normal((length % 9 + 1, 128), dtype=np.float32) for length in range(len(texts))]
        return each[-1] if isinstance(texts, str) else each

    return {
        "model": SimpleNamespace(encode_document=tokens, encode_query=tokens, encode=lambda texts, is_query: tokens(texts)),
        "texts": ["a text"] * 30,
        "questions": ["a question"] * 4,
        "rows": vectors(300),
        "queries": vectors(4),
        "more": vectors(5),
        "vectors": vectors(1),
        "ids": np.arange(300),
        "mask": np.arange(400) % 3 == 0,
    }


@pytest.mark.parametrize("document", ["README.md", "python/README.md"])
def test_the_code_runs(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("sklearn")
    found = blocks(document)
    assert found, "the document shows Python"
    for block in found:
        names = arrays()
        exec(compile(block, document, "exec"), names)
        if "MultiVector(" in block:
            assert names["scores"].shape == (1, 30) and len(names["index"]) == 30
        if "distances, ids = index.search(" in block:
            assert names["ids"].shape[1] == 10
