"""The state path uses only arithmetic whose bits depend neither on the CPU nor on the batch."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STATE_PATH = sorted(
    [
        *(ROOT / "agent/slaternet_agent/algorithms").rglob("*.py"),
        *(ROOT / "proto/slaternet/numerics/sets").rglob("*.py"),
    ]
)
SPARSE = {"neighbours.py": ["@"]}
"""Products of sparse matrices, which are sums in index order; neither BLAS nor threads take part."""
CALLS_OUT = {
    *("dot", "vdot", "inner", "matmul", "vecdot", "matvec", "vecmat", "tensordot", "einsum", "linalg", "norm"),
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "pow", "cbrt", "hypot"),
    *("sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arcsin", "arccos", "logaddexp"),
}


def unstable(source: str) -> list[str]:
    """Return every use of arithmetic that calls BLAS or the C library's mathematics."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                found.append(f"line {node.lineno}: @")
            case ast.BinOp(op=ast.Pow(), right=exponent) | ast.AugAssign(op=ast.Pow(), value=exponent):
                if not (isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)):
                    found.append(f"line {node.lineno}: **")
            case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name) if name in CALLS_OUT:
                found.append(f"line {node.lineno}: {name}")
            case ast.Attribute(attr="dot"):
                found.append(f"line {node.lineno}: dot")
            case ast.ImportFrom(module="numpy" | "math" | "numpy.linalg", names=names):
                found += [f"line {node.lineno}: {name.name}" for name in names if name.name in CALLS_OUT]
    return found


@pytest.mark.parametrize("path", STATE_PATH, ids=lambda path: path.name)
def test_the_state_path_calls_neither_blas_nor_libm(path: Path) -> None:
    assert [use.split()[-1] for use in unstable(path.read_text())] == SPARSE.get(path.name, [])


@pytest.mark.parametrize(
    "source",
    [
        *("a @ b", "a @= b", "np.dot(a, b)", "a.dot(b)", "np.linalg.norm(a)", "from numpy import linalg"),
        *("np.einsum('i,i', a, b)", "np.exp(a)", "math.log(a)", "from math import exp"),
        *("a ** 0.5", "a ** b", "a **= c"),
    ],
)
def test_what_is_forbidden_is_found(source: str) -> None:
    assert unstable(source)


def test_what_is_allowed_is_not_found() -> None:
    assert unstable("np.add.reduce(np.sqrt(a) * b ** 2, axis=-1); power(s, -c)") == []
