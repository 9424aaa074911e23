"""Faults in the kernel sources, by rule. kernel-faults.py plants them."""
import collections, json, pathlib, random, re, subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIP, INCLUDE = ROOT / "kernels/hip", ROOT / "kernels/include"
# The host engine's interface and the emulation of matrix units are not part of a kernel for a GPU.
NOT_KERNELS = {"ops_host.h", "ops_mma_plain.h", "ops_platform.h"}

# Rule, pattern, replacement. The sources put blanks around binary operators and none inside template arguments.
RULES = [
    ("operator", r" \+ ", " - "), ("operator", r" - ", " + "), ("operator", r" \* ", " + "), ("operator", r" / ", " * "),
    ("operator", r" < ", " <= "), ("operator", r" <= ", " < "), ("operator", r" > ", " >= "), ("operator", r" >= ", " > "),
    ("operator", r" == ", " != "), ("operator", r" != ", " == "), ("operator", r" && ", " || "), ("operator", r" \|\| ", " && "),
    ("operator", r" \+= ", " -= "), ("operator", r" % ", " / "), ("operator", r" << ", " >> "), ("operator", r" >> ", " << "),
    ("operator", r" & ", " | "), ("operator", r" \| ", " & "), ("operator", r"\bmin\(", "max("), ("operator", r"\bmax\(", "min("),
    ("bound", r"(for \([^;]*;[^;]*?) < ([^;]+);", r"\1 < \2 - 1;"), ("bound", r"(for \([^;=]*) = 0;", r"\1 = 1;"),
    ("bound", r"(for \([^;]*;[^;]*?) < ([^;]+);", r"\1 <= \2;"), ("bound", r" - 1\b", ""), ("bound", r" \+ 1\b", ""),
    ("stride", r" \* (args\.)?\w*stride\w*(\[\w+\])?(?=[^\w(\[.])", ""), ("stride", r"stride\[0\]", "stride[1]"),
    ("stride", r"stride\[1\]", "stride[0]"), ("stride", r"stride\[2\]", "stride[1]"), ("stride", r"stride\[5\]", "stride[4]"),
    ("stride", r"dim\[5\]", "dim[4]"), ("stride", r"dim\[1\]", "dim[0]"), ("stride", r" \+= (\w*stride\w*);", r" += 2 * \1;"),
    ("constant", r"(?<![\w.\[<])0(?![\w.xX])", "1"), ("constant", r"(?<![\w.\[<])1(?![\w.])", "0"),
    ("constant", r"(?<![\w.<])2(?![\w.])", "3"), ("constant", r"(?<![\w.<])32(?![\w.])", "64"),
    ("constant", r"(?<![\w.<])64(?![\w.])", "32"), ("constant", r" \+ A\((args\.)?eps\)", ""),
    ("constant", r"\b(\d+)\.(\d+)f?\b", r"2\1.\2"), ("constant", r"\btrue\b", "false"), ("constant", r"\bfalse\b", "true"),
    ("barrier", r"\b(barrier|wave_barrier|release_to_device|acquire_from_device)\(\);", ";"),
]
NO_CODE = re.compile(r"^\s*(#|//|template|static_assert|using|typedef|OPS_DEVICE void release|namespace|struct|constexpr (u32|bool) \w+ = [^;]*$)")


def lines_of_host(family):
    """The lines of each file that the family's unit has after the preprocessor, on either wave size."""
    kept = collections.defaultdict(set)
    for wave, matrix in ((32, 11), (32, 12), (64, 90)):
        command = ["g++", "-E", "-std=c++17", f"-DOPS_WAVE={wave}", f"-DOPS_MATRIX={matrix}", "-x", "c++", f"-I{INCLUDE}"]
        text = subprocess.run([*command, HIP / f"{family}.hip"], capture_output=True, text=True, check=True).stdout
        file, at = None, 0
        for line in text.splitlines():
            if mark := re.match(r'# (\d+) "([^"]*)"', line):
                at, file = int(mark[1]), pathlib.Path(mark[2])
                continue
            if file and file.parent in (HIP, INCLUDE) and line.strip():
                kept[file.name].add(at)
            at += 1
    return kept


def code_of(line):
    return re.sub(r"//.*", lambda m: " " * len(m[0]), re.sub(r'"[^"]*"', lambda m: "~" * len(m[0]), line))


def faults_of(name, kept):
    """Every fault that the rules give for a file."""
    path = HIP / name if name.endswith(".hip") else INCLUDE / name
    depth_of_struct, out = None, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(r"^(template .*)?struct \w+ \{", line):
            depth_of_struct = "struct"
        if depth_of_struct and re.match(r"^\};", line):
            depth_of_struct = None
        code = code_of(line)
        field = depth_of_struct and not re.search(r"\(|return", code)
        heading = NO_CODE.match(line) and not ("return" in code and not line.lstrip().startswith("#"))
        if number not in kept or heading or field or not code.strip(" {}()[];"):
            continue
        for kind, pattern, to in RULES:
            for m in re.finditer(pattern, code):
                after = line[: m.start()] + m.expand(to) + line[m.end():]
                if after != line:
                    out.append({"file": name, "line": number, "rule": kind, "before": line, "after": after})
    return out


def make_list(args, is_tested):
    """Writes faults.jsonl: faults over all files in proportion to their size. A header's fault is tested in one family that includes it."""
    rng = random.Random(args.seed)
    families = sorted(p.stem for p in HIP.glob("*.hip"))
    users, kept = collections.defaultdict(list), collections.defaultdict(set)
    for family in families:
        for name, lines in lines_of_host(family).items():
            users[name].append(family)
            kept[name] |= lines
    names = [n for n in sorted(kept) if n not in NOT_KERNELS]
    possible = {name: faults_of(name, kept[name]) for name in names}
    if args.family:
        return list_more(args, rng, users, possible)
    size = {name: len({f["line"] for f in possible[name]}) for name in names}
    total = sum(size.values())
    chosen = []
    for name in names:
        least = 3 if name.endswith(".hip") else 1
        want = max(least, round(args.count * size[name] / total))
        # The same number of each kind as far as there are any; at most one of a line.
        by_kind = collections.defaultdict(list)
        for fault in possible[name]:
            by_kind[fault["rule"]].append(fault)
        for pool in by_kind.values():
            rng.shuffle(pool)
        lines, kinds = set(), sorted(by_kind)
        rng.shuffle(kinds)
        mine = []
        while len(mine) < want and any(by_kind.values()):
            for kind in kinds:
                while by_kind[kind] and len(mine) < want:
                    fault = by_kind[kind].pop()
                    if fault["line"] not in lines:
                        lines.add(fault["line"])
                        mine.append(fault)
                        break
        for fault in mine:
            fault["family"] = name[:-4] if name.endswith(".hip") else rng.choice([f for f in users[name] if is_tested(f)] or users[name])
        chosen += mine
    write_list(args, chosen)


def list_more(args, rng, users, possible):
    """`count` faults for each of the families that are named, one in three from their own file, the others from its headers."""
    chosen = []
    for family in args.family.split(","):
        headers = [f for name in possible if name.endswith(".h") and family in users[name] for f in possible[name]]
        own, seen = list(possible[f"{family}.hip"]), set()
        rng.shuffle(headers)
        rng.shuffle(own)
        for fault in own[: args.count // 3] + headers:
            place = fault["file"], fault["line"]
            if place not in seen and len(seen) < args.count:
                seen.add(place)
                chosen.append({**fault, "family": family})
    write_list(args, chosen)


def write_list(args, chosen):
    chosen.sort(key=lambda f: (f["family"], f["file"], f["line"]))
    with open(args.out / "faults.jsonl", "w") as file:
        for number, fault in enumerate(chosen):
            file.write(json.dumps({"id": number, **fault}) + "\n")
    print(len(chosen), "faults;", dict(collections.Counter(f["rule"] for f in chosen)))
