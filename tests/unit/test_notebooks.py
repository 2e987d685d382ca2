"""Notebooks: their cells as one module, and fixes of the module as changes of cells."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.project.notebooks import NotANotebookError, Notebook, notebook, undone
from amplint.util.positions import Position
from amplint.util.text import LINE_END, Text, UndecodableError, UnencodableError
from tests.command import Amplint

ROOT = Path(__file__).resolve().parents[2]
IMPORT = "import torch"
LEGACY = "with torch.cuda.amp.autocast():\n    pass"
MODERN = 'with torch.amp.autocast("cuda"):\n    pass'


def code(source: object, **more: object) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    return {**cell, "source": source, **more}


def markdown(source: object) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def document(*cells: object, metadata: object = None, **dumps: Any) -> str:
    made = {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, **{"indent": 1, "ensure_ascii": False, **dumps}) + "\n"


def of(*sources: str) -> Notebook:
    """A notebook of code cells, whose lines are strings of their own."""
    return notebook(Text(document(*(code(each.splitlines(keepends=True)) for each in sources))))


# ------------------------------------------------------------------------------- round trips

LINES = st.sampled_from([
    "x = 1", "%matplotlib inline", "!pip install 'x", "x = !ls", "%time y = f(x)  # é",
    "%timeit -n 10 f('#~|')", "f?", "??f", "%%time", "%%bash", "if x:", "    %time f(", "    pass",
    "s = '''", "%d of", "'''", "f(a,", "  % b)", "!ls \\", "  more", "print 'x'", "#~[1]", "\ufeff",
    "x = %env HOME", "a, b = %sx ls", "/f 1", ",f a", "\0", "é\u2028é = 'a'", "\t!x", "0; y",
    "get_ipython()", "#~|pass", "\ud800", "\\", "", "\r", "\f",
])  # fmt: skip
SOURCES = st.one_of(
    st.text(max_size=30),
    st.lists(LINES, max_size=6).flatmap(
        lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines))
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
WRITTEN = SOURCES | SOURCES.map(lambda source: source.splitlines(keepends=True))
CELLS = st.one_of(st.builds(code, WRITTEN, outputs=JSON, id=JSON), st.builds(markdown, WRITTEN))
STYLES = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 1, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" ,\r\n ", " :\t")]),
    }
)
DOCUMENTS = st.builds(
    lambda cells, more, style: document(*cells, metadata={"more": more}, **style),
    st.lists(CELLS, max_size=4), JSON, STYLES,
)  # fmt: skip


@given(DOCUMENTS)
def test_without_edits_every_byte_stays(text: str) -> None:
    read = notebook(Text(text))
    assert read.written(read.text) == text
    assert read.changes("a.ipynb", read.text) == []


@given(DOCUMENTS)
def test_the_module_is_python_and_has_the_rows_and_names_of_the_cells(text: str) -> None:
    read = notebook(Text(text))
    ast.parse(read.text)
    for cell in read.cells:
        assert len(LINE_END.findall(cell.code)) == len(LINE_END.findall(cell.source))
        assert cell.is_left_out or undone(cell.code, read.boundary) == cell.source


@given(DOCUMENTS, st.integers(min_value=0), st.sampled_from(["y = 2\n", "é = '\u2028\"'\n", "#\n"]))
def test_an_edit_changes_the_source_of_its_cell_and_nothing_else(
    text: str, choice: int, line: str
) -> None:
    read = notebook(Text(text))
    cells = [cell for cell in read.cells if not cell.is_left_out]
    if not cells:
        return
    cell = cells[choice % len(cells)]
    marker = f"{read.boundary}[{cell.number}]\n"
    new = read.written(read.text.replace(marker, marker + line))

    before, after = json.loads(text), json.loads(new)
    old, changed = (each["cells"][cell.number - 1].pop("source") for each in (before, after))
    assert json.dumps(after) == json.dumps(before)  # NaN is not equal to itself
    assert "".join(changed) == line + "".join(old)
    assert type(changed) is type(old)
    assert new.startswith(text[: cell.start])
    assert new.endswith(text[cell.end :])


@given(DOCUMENTS)
def test_a_position_in_the_file_is_that_of_the_character(text: str) -> None:
    read, file = notebook(Text(text)), Text(text)
    for cell in read.cells:
        above = read.position(read.text.index(f"{read.boundary}[{cell.number}]")).row
        source = Text(cell.source)
        for offset, character in enumerate(cell.source):
            row, column = source.position(offset)
            at = read.in_file(Position(row + above, column))
            raw = text[file.start(at.row) + at.column - 1 :]
            spelled = re.match(r"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.)", raw)
            assert spelled is not None
            assert json.loads(f'"{spelled[1]}"') == character


def test_only_changed_lines_of_a_cell_are_spelled_anew() -> None:
    # As no program would write it: escapes, strings of half a line, white space.
    cell = '{"source" : [ "a = \\"\\u00e9\\"\\n" ,\n"b ","= 2\\n","c = 3" ], "cell_type": "code"}'
    text = f'{{"cells":[{cell}],"nbformat":4}}'
    read = notebook(Text(text))
    new = read.written(read.text.replace("c = 3", "c = '\xe9'"))
    assert new == text.replace('"b ","= 2\\n"', '"b = 2\\n"').replace(
        '"c = 3"', "\"c = '\\u00e9'\""
    ).replace('"b = 2\\n",', '"b = 2\\n" ,\n')


# ------------------------------------------------------------------------------- IPython


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("%matplotlib inline\nx", "#~|%matplotlib inline\nx"),
        ("!pip install \\\n  torch\nx", "#~|!pip install \\\n#~|  torch\nx"),
        ("!echo it's (\nx", "#~|!echo it's (\nx"),
        ("if x:\n    !ls\n    y", "if x:\n    pass#~|!ls\n    y"),
        ("x = %env HOME", "x = get_ipython()#~|%env HOME"),
        ("x = a % b\nx = !ls", "x = a % b\nx = get_ipython()#~|!ls"),
        ("a[0], b.c = %sx ls", "a[0], b.c = get_ipython()#~|%sx ls"),
        ("%time y = f(x)", "0;    y = f(x)#~<%time "),
        ("%timeit -n10 -r 3 f(x)", "0;                f(x)#~<%timeit -n10 -r 3 "),
        ("%time f(\nx", "#~|%time f(\nx"),
        ("%time for a in b: c", "#~|%time for a in b: c"),
        ("%time", "#~|%time"),
        ("model.train?\n?x\nx.y[0]??", "#~|model.train?\n#~|?x\n#~|x.y[0]??"),
        ("%%time\nx", "#~|%%time\nx"),
        ("\n%%capture out\nx = !ls", "\n#~|%%capture out\nx = get_ipython()#~|!ls"),
        ("%%bash\nfor x in *; do y; done", "\n"),
        ("%%html", ""),
        ("x = '''\n%d\n!'''\n%y", "x = '''\n%d\n!'''\n#~|%y"),
        ("x = (a\n%b)\n%y", "x = (a\n%b)\n#~|%y"),
        ("x = a \\\n%b\n%y", "x = a \\\n%b\n#~|%y"),
        ("'#~'\n%y", "'#~'\n#~~|%y"),
        ("await x", "await x"),
        ("pip install torch", "#~|pip install torch"),
    ],
)
def test_what_only_ipython_understands_is_commented_out(source: str, module: str) -> None:
    (cell,) = of(source).cells
    assert (cell.code, cell.refused) == (module, None)


def test_a_bare_magic_is_all_of_its_cell() -> None:
    assert len(of("pip install torch\nx = 1").refused) == 1


def test_a_cell_that_is_no_python_takes_no_other_with_it() -> None:
    read = of("x = 1", "y = 2\nprint 'x'", "z = 3")
    assert read.text == "#~[1]\nx = 1\n#~[2]\n\n\n#~[3]\nz = 3\n"
    ((place, reason),) = read.refused
    assert read.part(place.row).cell == 2
    assert read.part(place.row).place(place) == Position(2, 1)
    assert "print" in reason


def test_a_change_that_reaches_across_cells_is_refused() -> None:
    read = of("x = 1", "y = 2", "print 'z'", "%time a = 1")
    with pytest.raises(UnencodableError):
        read.written(read.text.replace("#~[2]\n", ""))
    with pytest.raises(UnencodableError):
        read.written("y = 0\n" + read.text)
    with pytest.raises(UnencodableError):
        read.written(read.text.replace("#~[3]\n", "#~[3]\nz = 3"))
    with pytest.raises(UnencodableError):
        read.written(read.text.replace("a = 1", "").replace("0;", ""))


# ------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("no", (1, 1), "it is not JSON: Expecting value"),
        ('{"cells": [\n', (2, 1), "it is not JSON"),
        ("[" * 100_000, (1, 1), "it is nested too deeply"),
        ('{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}", (1, 1), "it is nested too deeply"),
        ("[]", (1, 1), "it is not a JSON object"),
        ("{}", (1, 1), "it has no list of `cells`"),
        ('{"cells": {}}', (1, 1), "it has no list of `cells`"),
        ('{"cells": [\n 1]}', (2, 2), "cell 1 is not a JSON object"),
        (document(code(1)), (8, 14), "the `source` of cell 1 is not text"),
        (document(markdown(1), code(["x", 1])), (13, 14), "the `source` of cell 2 is not text"),
        ('{"cells": [\n{"cell_type": "code"}]}', (2, 1), "cell 1 has no `source`"),
        ('{"nbformat": 3, "worksheets": []}', (1, 1), "its nbformat is 3 or less"),
        ('{"nbformat": 2, "cells": []}', (1, 1), "its nbformat is 3 or less"),
        (f'{{"cells": [], "nbformat": {"9" * 5000}}}', (1, 1), "Exceeds the limit"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_no_notebook_is_told_in_a_line(
    text: str, place: tuple[int, int], reason: str
) -> None:
    with pytest.raises(NotANotebookError) as raised:
        notebook(Text(text))
    assert (raised.value.row, raised.value.column) == place
    assert raised.value.reason.startswith(reason)
    assert "\n" not in raised.value.reason


@given(st.text() | JSON.map(json.dumps) | st.dictionaries(
    st.sampled_from(["cells", "metadata", "nbformat", "worksheets"]),
    JSON | st.lists(st.dictionaries(
        st.sampled_from(["cell_type", "source", "metadata"]), JSON | st.just("code"),
    )),
).map(json.dumps))  # fmt: skip
def test_whatever_the_file_holds_nothing_else_is_raised(text: str) -> None:
    try:
        read = notebook(Text(text))
    except UndecodableError:
        return
    assert read.written(read.text) == text


@pytest.mark.parametrize(
    ("metadata", "cells"),
    [
        ({}, 1),
        ({"kernelspec": {"language": "python", "name": "conda"}}, 1),
        ({"language_info": {"name": "python"}}, 1),
        ({"kernelspec": "R", "language_info": {"name": 1}}, 1),
        ({"kernelspec": {"language": "R", "name": "ir"}}, 0),
        ({"language_info": {"name": "julia"}}, 0),
    ],
)
def test_notebooks_of_other_languages_have_no_cells(metadata: object, cells: int) -> None:
    assert len(notebook(Text(document(code("x"), metadata=metadata))).cells) == cells


def test_cells_of_other_languages_and_texts_are_left_out() -> None:
    sql = code("select", metadata={"vscode": {"languageId": "sql"}})
    read = notebook(Text(document(sql, markdown("# x"), code("x"))))
    assert [cell.number for cell in read.cells] == [3]


def test_an_empty_file_is_a_notebook_without_cells() -> None:
    assert notebook(Text("")).text == ""


# ------------------------------------------------------------------------------- as a user has it


pytestmark = pytest.mark.usefixtures("project")


def test_a_report_names_the_cell_and_the_line_in_it(amplint: Amplint, project: Path) -> None:
    (project / "a.ipynb").write_text(
        document(markdown("# x"), code(IMPORT), code(f"%time x = 1\n{LEGACY}"))
    )
    status, out, _ = amplint("check")
    assert status == 1
    assert out.startswith(
        'a.ipynb:cell 3:2:6 AMP701 legacy-autocast: `torch.cuda.amp.autocast` is deprecated: '
        'use `torch.amp.autocast("cuda", ...)`\n'
        "  2 | with torch.cuda.amp.autocast():\n"
    )  # fmt: skip
    status, out, _ = amplint("check", "--format", "concise")
    assert out.startswith("a.ipynb:cell 3:2:6: AMP701 [*] legacy-autocast")
    _, out, _ = amplint("check", "--format", "github")
    # In the JSON, of which GitHub shows the lines.
    assert "file=a.ipynb,line=20,endLine=20,col=33,endColumn=58," in out
    assert "a.ipynb:cell 3:2:6: AMP701" in out
    ((found),) = json.loads(amplint("check", "--format", "json")[1])
    assert (found["filename"], found["cell"]) == ("a.ipynb", 3)
    assert found["location"] == {"row": 2, "column": 6}
    assert [edit["cell"] for edit in found["fix"]["edits"]] == [3] * len(found["fix"]["edits"])
    log = json.loads(amplint("check", "--format", "sarif")[1])
    (result,) = log["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 20, "startColumn": 33, "endLine": 20, "endColumn": 58}
    text = (project / "a.ipynb").read_text()
    assert amplint("fix", "--apply")[0] == 0
    assert (project / "a.ipynb").read_text() == after_fix(text, result)


def after_fix(text: str, result: Any) -> str:
    """A file after the fix of a SARIF result, as a program that knows no notebooks applies it."""
    ((change,),) = [fix["artifactChanges"] for fix in result["fixes"]]
    lines = text.splitlines(keepends=True)
    for one in reversed(change["replacements"]):
        region = one["deletedRegion"]
        start, end = region["startLine"] - 1, region["endLine"] - 1
        before = lines[start][: region["startColumn"] - 1]
        after = lines[end][region["endColumn"] - 1 :]
        lines[start : end + 1] = [before + one["insertedContent"]["text"] + after]
    return "".join(lines)


def test_sarif_has_no_fix_that_a_notebook_does_not_take(amplint: Amplint, project: Path) -> None:
    cells = ("from torch.cuda.amp import autocast", "with autocast():\n    pass", "import torch")
    (project / "a.ipynb").write_text(document(*map(code, cells)))
    log = json.loads(amplint("check", "--format", "sarif")[1])
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "AMP701"
    assert "fixes" not in result


def test_findings_of_a_file_name_the_cell_that_makes_it_hot(
    amplint: Amplint, project: Path
) -> None:
    (project / "helpers.py").write_text("def log(loss):\n    print(loss.item())\n")
    loop = (
        "model = torch.nn.Linear(4, 4).cuda()\nfor x in DataLoader([1]):\n"
        "    loss = model(x.cuda()).sum()\n    loss.backward()\n    log(loss)"
    )
    imports = f"{IMPORT}\nfrom torch.utils.data import DataLoader\nfrom helpers import log"
    (project / "a.ipynb").write_text(document(code(imports), code(loop)))
    for _ in range(2):  # the second time from the cache
        status, out, _ = amplint("check", "helpers.py")
        assert status == 1
        assert "helpers.py:2:11 AMP101" in out
        assert "  a.ipynb:cell 2:2:1: the training loop, once per batch" in out


def test_fixes_leave_all_else_as_it_was(amplint: Amplint, project: Path) -> None:
    file = project / "a.ipynb"
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["torch.cuda.amp.autocast"]}]
    text = document(
        code(["%matplotlib inline\n", IMPORT]),
        markdown(LEGACY),
        code(LEGACY.splitlines(keepends=True), outputs=outputs, id="é"),
        code("print 'x'"),
        code(LEGACY),
        indent="\t",
    )
    file.write_bytes(text.encode().replace(b"\n", b"\r\n"))
    status, out, err = amplint("fix")
    assert status == 1
    assert (
        err
        == "would fix 2 findings in 1 file; --apply writes the fixes; 1 left, see `amplint check`\n"
    )
    assert out.startswith(
        "--- a/a.ipynb:cell 3\n+++ b/a.ipynb:cell 3\n@@ -1,2 +1,2 @@\n"
        "-with torch.cuda.amp.autocast():\n"
        '+with torch.amp.autocast("cuda"):\n     pass\n--- a/a.ipynb:cell 5\n'
    )

    status, out, err = amplint("fix", "--apply")
    assert status == 1
    assert err == "fixed 2 findings in 1 file\n"
    assert "a.ipynb:cell 4:1:1 AMP000 unparsable-file: Python" in out
    assert "cannot read this cell: " in out
    line, modern = (json.dumps(each.split("\n")[0] + "\n") for each in (LEGACY, MODERN))
    last, modern_last = (f'"source": {json.dumps(each)}' for each in (LEGACY, MODERN))
    before, after = text.replace(line, modern).rsplit(last, 1)
    expected = before + modern_last + after
    assert expected.count("autocast(\\") == 2
    assert file.read_bytes() == expected.encode().replace(b"\n", b"\r\n")


def test_a_new_import_goes_to_the_first_cell_with_imports(amplint: Amplint, project: Path) -> None:
    file = project / "a.ipynb"
    file.write_text(
        document(
            code(["%autoreload\n", "import torch.cuda.amp as old"]),
            code(["with old.autocast():\n", "    pass"]),
            code(["import os"]),
        )
    )
    assert amplint("fix", "--apply")[0] == 0
    cells = json.loads(file.read_text())["cells"]
    assert [cell["source"] for cell in cells] == [
        ["%autoreload\n", "import torch"],
        ['with torch.amp.autocast("cuda"):\n', "    pass"],
        ["import os"],
    ]


def test_an_import_of_a_cell_keeps_its_style(amplint: Amplint, project: Path) -> None:
    file = project / "a.ipynb"
    first, second = "%matplotlib inline\nfrom torch.cuda.amp import autocast", "with autocast():\n"
    file.write_text(document(code(first), code(f"{second}    pass")))
    assert amplint("fix", "--apply")[0] == 0
    cells = json.loads(file.read_text())["cells"]
    assert ["".join(cell["source"]) for cell in cells] == [
        "%matplotlib inline\nfrom torch.amp import autocast",
        'with autocast("cuda"):\n    pass',
    ]


def test_a_name_that_a_later_cell_imports_is_not_used_before(
    amplint: Amplint, project: Path
) -> None:
    file = project / "a.ipynb"
    text = document(
        code("from torch.cuda.amp import autocast"),
        code("with autocast():\n    pass"),
        code("import torch"),
    )
    file.write_text(text)
    status, _, err = amplint("fix", "--apply")
    assert (status, file.read_text()) == (2, text)
    place = "a.ipynb:cell 2:1: AMP701 not fixed"
    assert f"{place}: `torch` would be used above its import" in err


@pytest.mark.parametrize("user", ["%prun autocast()", "print autocast()", "%%mine\nautocast()"])
def test_imports_that_ipython_may_use_stay(amplint: Amplint, project: Path, user: str) -> None:
    file = project / "a.ipynb"
    first = f"{IMPORT}\nfrom torch.cuda.amp import autocast"
    file.write_text(document(code(first), code("with autocast():\n    pass"), code(user)))
    amplint("fix", "--apply")
    cells = [cell["source"] for cell in json.loads(file.read_text())["cells"]]
    assert cells == [first, 'with torch.amp.autocast("cuda"):\n    pass', user]


def test_comments_suppress_in_cells(amplint: Amplint, project: Path) -> None:
    ignored = LEGACY.replace(":\n", ":  # amplint: ignore[AMP701] as it was\n")
    cells = [code(IMPORT), code(ignored), code("x = 1  # amplint: ignore[AMP701]\n")]
    (project / "a.ipynb").write_text(document(*cells))
    _, out, _ = amplint("check", "--format", "concise")
    assert [line.split(": ")[0] for line in out.splitlines()] == ["a.ipynb:cell 3:1:8"]
    assert "AMP001" in out
    (project / "a.ipynb").write_text(document(*cells, code("# amplint: ignore-file\n" + LEGACY)))
    assert amplint("check") == (0, "1 file, no findings\n", "")


def test_findings_stand_in_the_order_of_the_cells(amplint: Amplint, project: Path) -> None:
    """Also those of a cell that is no Python, which is known before all others."""
    cells = [code(f"{IMPORT}\n{LEGACY}"), code("print 'x'"), code(LEGACY)]
    (project / "a.ipynb").write_text(document(*cells))
    _, out, _ = amplint("check", "--format", "concise")
    assert [line.split(": ")[0] for line in out.splitlines()] == [
        "a.ipynb:cell 1:2:6",
        "a.ipynb:cell 2:1:1",
        "a.ipynb:cell 3:1:6",
    ]


def test_a_notebook_without_a_cell_that_python_reads(amplint: Amplint, project: Path) -> None:
    (project / "a.ipynb").write_text(document(code("print 'x'"), code("print 'y'")))
    (project / "b.py").write_text(f"{IMPORT}\n{LEGACY}\n")
    _, out, _ = amplint("check", "--format", "concise")
    assert [line.split(": ")[0] for line in out.splitlines()] == [
        "a.ipynb:cell 1:1:1",
        "a.ipynb:cell 2:1:1",
        "b.py:2:6",
    ]


def test_the_second_run_finds_the_same(amplint: Amplint, project: Path) -> None:
    (project / "a.ipynb").write_text(document(code(f"{IMPORT}\n{LEGACY}"), code("print 'x'")))
    first = amplint("check")
    assert "AMP000" in first[1]
    assert amplint("check") == first
    (project / "a.ipynb").write_text(document(code(f"{IMPORT}\n{LEGACY}"), code("print('x')")))
    assert "AMP000" not in amplint("check")[1]


def test_a_file_that_is_no_notebook_is_a_finding_and_the_rest_goes_on(
    amplint: Amplint, project: Path
) -> None:
    (project / "a.ipynb").write_text('{"cells": [\n1]}')
    (project / "b.ipynb").write_text(document(code(f"{IMPORT}\n{LEGACY}")))
    (project / "c.ipynb").write_bytes(b"\xff\xfe{")
    status, out, err = amplint("check", "--format", "concise")
    assert (status, err) == (1, "")
    assert [line.split(": ")[0] for line in out.splitlines()] == [
        "a.ipynb:2:1",
        "b.ipynb:cell 1:2:6",
        "c.ipynb:1:1",
    ]
    assert "cannot read this notebook: cell 1 is not a JSON object" in out


def standard_input(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    command = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r});"
        "from amplint.cli.main import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", command, *arguments],
        input=text, capture_output=True, text=True, check=False, encoding="utf-8",
    )  # fmt: skip


def test_standard_input_may_be_a_notebook(project: Path) -> None:
    (project / "on_disk.ipynb").write_text("{}")
    text = document(code(IMPORT), code(LEGACY, outputs=["é"]))
    for name in ("on_disk.ipynb", "unsaved.ipynb"):
        given = ("-", "--stdin-filename", name)
        done = standard_input("check", *given, "--format", "concise", text=text)
        assert done.stdout.startswith(f"{name}:cell 2:1:6: AMP701"), done
        done = standard_input("fix", *given, text=text)
        assert done.stdout == text.replace(json.dumps(LEGACY), json.dumps(MODERN))
    done = standard_input("check", "-", "--stdin-filename", "a.ipynb", text="{")
    assert done.returncode == 2
    assert done.stderr.startswith("amplint: error: a.ipynb:1:2: it is not JSON: ")


def test_the_hooks_of_pre_commit_take_notebooks() -> None:
    identify = pytest.importorskip("identify.identify")
    manifest = (ROOT / ".pre-commit-hooks.yaml").read_text()
    hooks = re.findall(r"^  types_or: \[(.*)\]$", manifest, re.MULTILINE)
    assert len(hooks) == manifest.count("- id: ") == 2
    for types in hooks:
        for name, taken in (("a.py", True), ("a.ipynb", True), ("a.pyi", False), ("a.md", False)):
            assert bool(identify.tags_from_filename(name) & {*types.split(", ")}) is taken
