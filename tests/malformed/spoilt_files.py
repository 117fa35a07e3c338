"""Sound files made unsound, by a seed: bytes of any file, values of JSON, TOML, tables and arrays, links and devices.

A spoiler changes one file in place. Those of a format keep the rest of it whole, so that a reader gets far into it.
"""

import csv
import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from slaternet.storage.disk import DISK
from slaternet.storage.record_file import Reader, head_bytes, seal_of, title_bytes

NUMBERS = (0, -1, 1, 7, 65537, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, 10**9, 10**30, 0.0, -0.0, 0.5, 1e-320, 1e308)
TEXTS = (
    "",
    "[red]x[/]",
    "[/]",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "$x^2$",
    "$\\frac{",
    "\u202e",
    "\U0001f600",
    "x" * 5000,
    "../..",
    "a\0b",
)
DEEP = (40, 990, 5000)

Spoiler = Callable[[Path, Random], str]
"""Spoils a file and returns how, in a few words."""


def _literal(random: Random) -> str:
    """Return a value as JSON has it, now and then one that its standard forbids."""
    kind = random.randrange(8)
    if kind == 0:
        depth = random.choice(DEEP)
        return random.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
    if kind == 1:
        return random.choice(("NaN", "Infinity", "-Infinity", "1e999", "9" * random.choice((20, 400, 5000))))
    if kind == 2:
        return random.choice(("null", "true", "[]", "{}", "[{}]", '{"":[]}'))
    if kind == 3:
        return json.dumps(random.choice(TEXTS))
    return json.dumps(random.choice(NUMBERS))


def spoil_json(path: Path, random: Random) -> str:
    """Replace a value by another, or leave it out."""
    document = json.loads(path.read_text())
    value = _literal(random)
    if random.random() < 0.1:
        path.write_text(value)
        return f"is {value[:40]}"
    place = _place(document, random)
    table, key = place[-1]
    name = ".".join(str(each) for _, each in place)
    if random.random() < 0.2:
        del table[key]
        path.write_text(json.dumps(document))
        return f"lacks {name}"
    table[key] = "REPLACED"
    path.write_text(json.dumps(document).replace('"REPLACED"', value, 1))
    return f"{name} is {value[:40]}"


def _place(document: Any, random: Random) -> list[tuple[Any, Any]]:
    """Return the tables and keys that lead to a value anywhere in a document."""
    place: list[tuple[Any, Any]] = []
    while isinstance(document, dict | list) and document and (not place or random.random() < 0.7):
        key = random.choice(list(document)) if isinstance(document, dict) else random.randrange(len(document))
        place.append((document, key))
        document = document[key]
    return place


def spoil_toml(path: Path, random: Random) -> str:
    """Replace a value by another; add or double a line; nest deeply; name files that are none."""
    lines = path.read_text().splitlines()
    values = [index for index, line in enumerate(lines) if re.match(r"[\w-]+ = ", line)]
    index = random.choice(values)
    key = lines[index].partition(" = ")[0]
    match random.randrange(7):
        case 0:
            depth = random.choice(DEEP)
            lines[index] = f"{key} = " + random.choice(("[" * depth + "]" * depth, "{a=" * depth + "1" + "}" * depth))
        case 1:
            lines.append(f"[{'.'.join('a' * random.choice(DEEP))}]\nb = 1")
        case 2:
            odd = ("1979-05-27", "nan", "-inf", "1e999", "0x" + "f" * 5000, "9" * 5000, "'''\n'''", "[1, 'a', {}]")
            lines[index] = f"{key} = {random.choice(odd)}"
        case 3:
            lines[index] = f"{key} = {json.dumps(random.choice(TEXTS))}"
        case 4:
            del lines[index]
        case 5:
            lines.insert(
                random.randrange(len(lines)), random.choice((lines[index], "[run]", "= 1", "\\u0000", "[[run]]"))
            )
        case _:
            lines[index] = f"{key} = {json.dumps(random.choice(NUMBERS))}"
    path.write_text("\n".join(lines) + "\n")
    return f"line {index + 1}, {key}, is another: {lines[min(index, len(lines) - 1)][:60]}"


def spoil_csv(path: Path, random: Random) -> str:
    """Change a cell, or the number of cells or rows."""
    rows = list(csv.reader(path.read_text().splitlines()))
    row = rows[random.randrange(len(rows))]
    cell = random.randrange(len(row))
    how = random.randrange(7)
    match how:
        case 0:
            row.insert(cell, "1")
        case 1:
            del row[cell]
        case 2:
            row[cell] = "x" * 10_000_000
        case 3:
            row[cell] = random.choice((*TEXTS, '"', "nan", "inf", "-inf", "1_0", "٣", "0x10", " 1", "9" * 5000))
        case 4:
            rows.insert(random.randrange(len(rows)), random.choice(rows))
        case 5:
            del rows[random.randrange(len(rows))]
        case _:
            row[cell] = str(random.choice(NUMBERS))
    path.write_text("\n".join(",".join(each) for each in rows) + "\n")
    return f"cell {cell} of a row, way {how}: {row[cell][:40] if cell < len(row) else 'gone'}"


def spoil_npz(path: Path, random: Random) -> str:
    """Let an array claim another shape or type than it has, be compressed, or be none."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = random.choice(list(arrays))
    array, how = arrays[name], random.randrange(8)
    members = {each: _npy(value) for each, value in arrays.items()}
    compression = zipfile.ZIP_STORED
    match how:
        case 0:
            shape = random.choice(((10**12,), (10**6,) * 3, (-1, -8), (0,), (1 << 62, 4), ()))
            members[name] = _npy(array, shape=shape)
        case 1:
            members[name] = _npy(array, descr=random.choice(("<f4", "|O", "|V8", "<c16", "<U9", "<i8", "V10000000000")))
        case 2:
            members[name] = _npy(array.astype(random.choice(("f4", "i1", "c16", "U3"))))
        case 3:
            members[name] = _npy(np.zeros((random.choice((1, 2, 1000)), *array.shape)))
        case 4:
            del members[name]
        case 5:
            members[name] = _npy(array, padding=random.choice(("(" * 9000, " " * 60000, "{" * 300)))
        case 6:
            compression = zipfile.ZIP_DEFLATED
            members[name] = _npy(np.zeros(1 << 24))
        case _:
            members[name] = _npy(
                np.full(array.shape, random.choice((np.nan, np.inf, 1e308, -1.0)) if array.shape else 3)
            )
    with zipfile.ZipFile(path, "w", compression) as archive:
        for each, data in members.items():
            archive.writestr(f"{each}.npy", data)
    return f"{name}, way {how}"


def _npy(array: Any, shape: Any = None, descr: str = "", padding: str = "") -> bytes:
    """Return an array as .npy, with a head that may lie."""
    out = io.BytesIO()
    if shape is None and not descr and not padding:
        np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=True)
        return out.getvalue()
    head = {"descr": descr or array.dtype.str, "fortran_order": False, "shape": array.shape if shape is None else shape}
    text = f"{padding}{head}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + array.tobytes()


def spoil_journal(path: Path, random: Random) -> str:
    """Change the payload of a record, or its kind or round, and seal it all again."""
    with closing(DISK.open(path)) as file:
        reader = Reader(path, file, largest=file.size())
        title, records = reader.title, list(reader)
    chosen = random.randrange(len(records))
    out = title_bytes(title)
    seal = seal_of(out)
    for index, record in enumerate(records):
        kind, round, payload = record.kind, record.round, record.payload
        if index == chosen:
            kind = random.choice((kind, kind, kind, random.randrange(1, 9), 60000))
            round = random.choice((round, round, round + 1, 0, 1 << 62))
            payload = _spoilt_bytes(payload, random)
        head = head_bytes(seal, kind, round, payload)
        out, seal = out + head + payload, seal_of(head)
    path.write_bytes(out)
    return f"record {chosen + 1} is another, and sealed"


def spoil_register(path: Path, random: Random) -> str:
    """Change a value of the document in the coordinator's database, and seal it again."""
    with closing(sqlite3.connect(path)) as register:
        (data,) = register.execute("SELECT json FROM register").fetchone()
        beside = path.with_name("document")
        beside.write_bytes(data)
        how = spoil_json(beside, random)
        data = beside.read_bytes()
        beside.unlink()
        register.execute("UPDATE register SET json = ?, seal = ?", (data, hashlib.sha256(data).digest()))
        register.commit()
    return how


def spoil_bytes(path: Path, random: Random) -> str:
    """Cut, flip, insert, repeat or replace bytes, or make it very long without taking room."""
    if random.random() < 0.1:
        size = random.choice((1 << 28, 1 << 33, 1 << 40))
        os.truncate(path, size)
        return f"is {size} bytes long"
    before = path.read_bytes()
    after = _spoilt_bytes(before, random)
    path.write_bytes(after)
    return f"{len(before)} bytes became {len(after)} others"


def _spoilt_bytes(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    match random.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return b""
        case 2:
            return random.randbytes(random.choice((1, 100, 5000)))
        case 3:
            return data[:at] + random.randbytes(random.randrange(1, 40)) + data[at:]
        case 4:
            return data + data[at:]
        case 5:
            return data[:at] + bytes(64) + data[at + 64 :]
        case _:
            spoilt = bytearray(data)
            for _ in range(random.choice((1, 1, 8)) if data else 0):
                spoilt[random.randrange(len(data))] ^= 1 << random.randrange(8)
            return bytes(spoilt)


def spoil_name(path: Path, random: Random, outside: Path) -> str:
    """Put something else in the place of a file or folder: a link, a pipe, a folder, nothing."""
    beside = path.with_name(path.name + ".was")
    path.rename(beside)
    kinds: dict[str, Callable[[], None]] = {
        "a link outside": lambda: path.symlink_to(outside / ("folder" if beside.is_dir() else "file")),
        "a link to a copy outside": lambda: path.symlink_to(_copy(beside, outside / path.name)),
        "a link to where it was moved": lambda: path.symlink_to(beside),
        "a hard link": lambda: path.hardlink_to(outside / "file"),
        "a device without end": lambda: path.symlink_to("/dev/zero"),
        "a device without content": lambda: path.symlink_to("/dev/null"),
        "a link to itself": lambda: path.symlink_to(path),
        "a link to nothing": lambda: path.symlink_to(outside / "absent"),
        "a folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "gone": lambda: None,
    }
    kind = random.choice(list(kinds))
    kinds[kind]()
    return f"is {kind}"


def _copy(path: Path, to: Path) -> Path:
    return Path(shutil.copytree(path, to) if path.is_dir() else shutil.copy(path, to))
