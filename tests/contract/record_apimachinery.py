"""Record how Kubernetes itself reads texts: `python -m tests.contract.record_apimachinery` (needs Go).

Writes tests/contract/apimachinery-{selectors,quantities}.json: texts, mostly made of the right pieces in the
wrong order, and what k8s.io/apimachinery makes of each; null is an error.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "v0.36.3"
GO = """package main

import (
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

func selector(text string) any {
	parsed, err := labels.Parse(text)
	if err != nil {
		return nil
	}
	read := [][]any{}
	requirements, _ := parsed.Requirements()
	for _, r := range requirements {
		read = append(read, []any{r.Key(), string(r.Operator()), r.Values().List()})
	}
	return read
}

func quantity(text string) any {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return nil
	}
	if value := parsed.AsApproximateFloat64(); value-value == 0 {
		return value
	}
	return "neither a number nor an error"
}

func main() {
	var texts map[string][]string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	read := map[string][]any{}
	for _, text := range texts["selectors"] {
		read["selectors"] = append(read["selectors"], map[string]any{"text": text, "read": selector(text)})
	}
	for _, text := range texts["quantities"] {
		read["quantities"] = append(read["quantities"], map[string]any{"text": text, "read": quantity(text)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(read); err != nil {
		panic(err)
	}
}
"""
LABELS = [
    *("policy", "team", "in", "notin", "example.com/x", "a.b-c/d_e", "checkout", "UPPER", "x_y.z"),
    *("-bad", "bad-", "a/b/c", "/x", "x/", "Up.com/x", "_x", "\u00e9"),
    *("a" * 63, "b" * 64, "c" * 253 + "/x", "d" * 254 + "/x", "x" * 70 + ".com/y"),
]
SYMBOLS = ["=", "==", "!=", "!", "(", ")", ",", " ", "\t", "  ", "\n"]
SELECTORS = [
    *("", " ", "a", "!a", "! a", "a=", "a!=", "a==", "a in (b)", "a in ()", "a in (,)", "a in (a,,b)"),
    *("a in (b", "a in b)", "a notin (b,)", "a,", "a,,b", ",a", "a=b,", "a=b c", "a = b , c", "!a=b", "!!a"),
    *("a=!b", "in in (in,notin)", "notin", "a in", "a===b", "a=b=c", "a!==b", "(a)", "a(b)", "a=(b)"),
]
QUANTITIES = [
    *("0", "1", "250m", "1.5Gi", "1e3", "1E3", "1E", "1e", "1Ei", "+5", "-1", ".5", "5.", "5.m", "1..2"),
    *("", "0x10", "1 Gi", "1k", "1K", "1Ki", "1mi", "1n", "1u", "1\u00b5", "NaN", "inf", "1_000", "\u0661"),
    *("1e-3", "1e1.5", "1ee3", "1Gi1", "9223372036854775807", "1e18", "1e19", "123456789.123456789"),
]


def a_soup(rng: random.Random) -> str:
    return "".join(rng.choice(rng.choice((LABELS, SYMBOLS))) for _ in range(rng.randint(1, 9)))


def nearly_a_selector(rng: random.Random) -> str:
    def values() -> str:
        return ", ".join(rng.choice([*LABELS[:8], ""]) for _ in range(rng.randint(1, 3)))

    def requirement() -> str:
        key, value = rng.choice(LABELS), rng.choice([*LABELS[:8], ""])
        forms = (key, f"!{key}", f"{key}={value}", f"{key} != {value}", f"{key}=={value}")
        return rng.choice((*forms, f"{key} in ({values()})", f"{key} notin({values()})"))

    return ",".join(requirement() for _ in range(rng.randint(1, 3)))


def nearly_a_quantity(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789.eE+-numkKMGTPi") for _ in range(rng.randint(1, 6)))


def made(given: list[str], count: int, make: Callable[[random.Random], str]) -> list[str]:
    rng, texts = random.Random(11), dict.fromkeys(given)
    while len(texts) < count:
        texts[make(rng)] = None
    return list(texts)


def main() -> None:
    texts = {
        "selectors": made(made(SELECTORS, 250, a_soup), 500, nearly_a_selector),
        "quantities": made(QUANTITIES, 400, nearly_a_quantity),
    }
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "main.go").write_text(GO)
        (Path(directory) / "go.mod").write_text(f"module recorder\n\nrequire k8s.io/apimachinery {VERSION}\n")
        subprocess.run(["go", "mod", "tidy"], cwd=directory, check=True)
        said = subprocess.run(
            ["go", "run", "."],
            cwd=directory,
            check=True,
            text=True,
            input=json.dumps(texts),
            stdout=subprocess.PIPE,
        )
    for name, cases in json.loads(said.stdout).items():
        lines = ",\n".join(json.dumps(case) for case in cases if not isinstance(case["read"], str))
        text = f'{{"version": "k8s.io/apimachinery {VERSION}", "cases": [\n{lines}\n]}}\n'
        (HERE / f"apimachinery-{name}.json").write_text(text)


if __name__ == "__main__":
    main()
