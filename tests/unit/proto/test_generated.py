"""The generated code that is committed is what the .proto files make."""

import subprocess
import sys
from pathlib import Path

PROTO = Path(__file__).parents[3] / "proto"


def test_the_generated_code_is_that_of_the_proto_files(tmp_path: Path) -> None:
    sources = sorted(PROTO.glob("slaternet/v1/*.proto"))
    program = [sys.executable, "-m", "grpc_tools.protoc", "-I", PROTO, f"--python_out={tmp_path}", *sources]
    subprocess.run([str(word) for word in program], check=True)

    made = {path.name: path.read_text() for path in tmp_path.glob("slaternet/v1/*_pb2.py")}
    committed = {path.name: path.read_text() for path in PROTO.glob("slaternet/v1/*_pb2.py")}

    assert made == committed
    assert len(made) == len(sources) > 0
