#!/usr/bin/env python3
"""Plants faults in the kernel sources and reports which tests find them. See docs/lab/kernel-faults.md.

    kernel-faults.py list --out DIR                # faults.jsonl: at most one fault each, by rule
    kernel-faults.py run NET --out DIR ...         # NET.jsonl: which faults the net finds
    kernel-faults.py table --out DIR               # the table by family, as Markdown

Nothing is rebuilt for a fault: the nets compile kernels while they run, and this script is their compiler (`cxx`).
It replaces one line of the source, found by its `#line` directive, and starts g++.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, re, signal, subprocess, sys, tempfile, threading, time

from kernel_fault_rules import make_list

# ---- the compiler of both nets -----------------------------------------------------------------------------------

def same_code(plain, planted):
    """Whether commands that differ in their source make the same code: no instance compiles the line, or it makes no difference."""
    codes = []
    for words in plain, planted:
        out = words.index("-o") + 1
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/library"
            subprocess.run(["g++", *words[:out], library, *words[out + 1:]], check=True, stderr=subprocess.DEVNULL)
            parts = [word for part in (".text", ".rodata", ".rodata.cst4", ".data.rel.ro", ".data") for word in ("-j", part)]
            subprocess.run(["objcopy", "-O", "binary", *parts, library, f"{library}.code"], check=True)
            codes.append(pathlib.Path(f"{library}.code").read_bytes())
    return codes[0] == codes[1]


def is_alike(plain, planted):
    """`same_code`, and on the other wave size as well."""
    def other(words):
        return [{"-DOPS_WAVE=32": "-DOPS_WAVE=64", "-DOPS_WAVE=64": "-DOPS_WAVE=32"}.get(w, w) for w in words]
    units = any(w.startswith("-DOPS_MATRIX") for w in plain)
    return same_code(plain, planted) and (units or same_code(other(plain), other(planted)))


def compile_with_fault(argv):
    fault = json.loads(os.environ["KERNEL_FAULT"]) if os.environ.get("KERNEL_FAULT") else None
    words = list(argv)
    if os.environ.get("KERNEL_FAULT_LENIENT"):
        words = [w for w in words if w != "-Werror"]
    source = next((i for i, w in enumerate(words) if w.endswith(".cpp")), None)
    if fault and source is not None and "-c" not in words:
        file, at, changed, out = None, 0, False, []
        for line in open(words[source]).read().split("\n"):
            if mark := re.match(r'#line (\d+) "([^"]*)"', line):
                at, file = int(mark[1]), mark[2]
            else:
                if file == fault["file"] and at == fault["line"]:
                    if line != fault["before"]:
                        sys.exit(f"{file}:{at} is not the line that was listed: {line}")
                    line, changed = fault["after"], True
                at += 1
            out.append(line)
        if changed:
            planted = pathlib.Path(words[source] + f".{os.getpid()}.fault.cpp")
            planted.write_text("\n".join(out))
            words[source] = str(planted)
            run = subprocess.run(["g++", *words])
            compiles = "-E" not in words and run.returncode == 0
            alike = compiles and os.environ.get("KERNEL_FAULT_COMPARE") and is_alike(argv, words)
            planted.unlink()
            if run.returncode:
                pathlib.Path(os.environ["KERNEL_FAULT_REJECTED"]).touch()
            elif compiles and not alike:
                pathlib.Path(os.environ["KERNEL_FAULT_COMPILED"]).touch()
            if alike:
                sys.exit("the same code with and without the fault")
            sys.exit(run.returncode)
    os.execvp("g++", ["g++", *words])


# ---- the two nets ------------------------------------------------------------------------------------------------

UNARY = "sigmoid,silu,gelu,gelu_erf,tanh,erf,exp,expm1,log,log1p,sin,cos,sqrt,recip,floor,ceil,round,trunc,neg,abs,relu,sqr,sign,affine"
ATTENTION = "attention,attention_varlen,attention_paged"
CONV = "conv1d,conv2d,conv_transpose1d,conv_transpose2d"
# Family: the tests of kernels/tests that run it, and the ops of the suite.
FAMILIES = {
    "unary": ("elementwise::", UNARY), "binary": ("elementwise::,parametric::powers_of_two", "add,sub,mul,div,maximum,minimum,pow,swiglu,geglu"),
    "bitwise": ("", "bitwise_and,bitwise_or,bitwise_xor,bitwise_not,shift_left,shift_right"),
    "compare": ("compare::", "eq,ne,lt,le,gt,ge,logical_and,logical_or,logical_xor,logical_not"),
    "parametric": ("parametric::", "powf,clamp,elu"),
    "norm": ("norm::", "rms_norm,layer_norm,add_rms_norm,group_norm,l2_norm,gated_rms_norm"),
    "softmax": ("softmax::", "softmax,log_softmax"),
    "reduce": ("reductions::rows_and", "sum,mean,max,min,argmax,argmin"), "scan": ("reductions::sums_run", "cumsum,cumprod"),
    "sort": ("reductions::rows_of", "sort,argsort,topk,scatter,scatter_add,index_add"),
    "batch_norm": ("", "batch_norm"), "pool": ("", "max_pool2d,avg_pool2d"),
    "upsample": ("", "upsample_nearest1d,upsample_nearest2d,upsample_bilinear2d"),
    "rope": ("rope::", "rope,rope_i,rope_thd"), "qk_norm_rope": ("", "qk_norm_rope,qk_norm_rope_cache_write"),
    "cache": ("", "cache_write,rope_cache_write,qk_norm_rope_cache_write,rope_qk_cache_write"), "linear_attention": ("", "conv1d_update,gated_delta_rule"),
    "copy": ("data_movement::copies,data_movement::where", "copy,fill,where,arange"), "cast": ("cast::", "cast"),
    "index": ("data_movement::index,data_movement::negative", "index_select"),
    "scatter": ("scatter::", "gather,scatter,scatter_add,index_add"),
    "matmul": ("matmul::small_tiles,matmul::every_weight,matmul::large_tiles,matmul::few,matmul::aligned,matmul::batches", "matmul,linear,rms_norm_linear_rope_cache_write"),
    "conv": ("conv::", CONV), "attention": ("attention::,ragged::", ATTENTION), "attention_decode": ("attention::,ragged::", ATTENTION),
    "quant": ("quant::", "quantize,dequantize,qembedding"), "gated": ("", "swiglu_clamped,gated_rms_norm,swiglu,geglu"),
    "routing": ("", "router_topk,combine_experts"), "sampling": ("", "sample"),
    "experts": ("", "linear_experts,qlinear_experts,linear_experts_swiglu,linear_experts_combine"), "experts_sort": ("", "linear_experts,qlinear_experts"),
    "experts_tile": ("", "linear_experts,qlinear_experts"), "experts_dot": ("", "qlinear_experts,linear_experts_swiglu,linear_experts_combine"),
    "qlinear": ("qlinear::", "qlinear,linear_swiglu"), "qlinear_dot": ("qlinear::", "qlinear,linear_swiglu,rms_norm_linear_rope_cache_write"),
    "mma_unit": ("matrix::", "matmul"), "matmul_mma": ("matmul::", "matmul,linear"), "conv_mma": ("conv::", CONV),
    "attention_mma": ("attention::f16_heads_on,attention::bf16_heads_on,ragged::f16_sequences_on,ragged::bf16_sequences_on,invisible", "attention,attention_varlen"), "qlinear_mma": ("qlinear::", "qlinear,linear_swiglu"),
    "experts_mma": ("", "linear_experts,qlinear_experts"),
}


# Families whose tests take longest, in this order; they come last.
SLOW = ["attention", "attention_mma", "attention_decode", "qlinear_dot", "qlinear_mma", "qlinear"]


def first_failure(command, variables, limit, failed):
    """Runs a command until a line says that something failed; the line, None, or `timeout`."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             env={**os.environ, **variables}, start_new_session=True)
    said, result = [], None
    timer = threading.Timer(limit, lambda: os.killpg(child.pid, signal.SIGKILL))
    timer.start()
    for line in child.stdout:
        said.append(line)
        if failed(line):
            result = line.strip()
            os.killpg(child.pid, signal.SIGKILL)
            break
    child.stdout.close()
    child.wait()
    timer.cancel()
    if result is None and time.monotonic() - start >= limit:
        return "timeout", said
    if result is None and child.returncode != 0:
        return f"exit {child.returncode}", said
    return result, said


class Net:
    def __init__(self, args, worker):
        self.args, self.worker = args, worker
        self.rejected, self.compiled = (args.out / f"{kind}-{self.name}-{worker}" for kind in ("rejected", "compiled"))
        wrapper = args.out / "cxx"
        self.variables = {"KERNEL_FAULT_REJECTED": str(self.rejected), "KERNEL_FAULT_COMPILED": str(self.compiled)}
        self.wrapper = str(wrapper)

    def find(self, fault):
        for mark in (self.rejected, self.compiled):
            mark.unlink(missing_ok=True)
        self.variables["KERNEL_FAULT"] = json.dumps(fault)
        start = time.monotonic()
        found, where, said = self.run(fault)
        if self.rejected.exists():
            found = "rejected"
        elif self.name == "kernels" and not self.compiled.exists() and found != "no tests":
            found = "same code"
        log = self.args.out / "logs" / f"{self.name}-{fault['id']}"
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(said)[-20000:])
        return {"id": fault["id"], "found": found, "where": where, "seconds": round(time.monotonic() - start, 1)}


class Kernels(Net):
    """kernels/tests, the tests of the fault's family. The stand-in, which compiles its units, keeps none of them."""
    name = "kernels"

    def run(self, fault):
        tests = FAMILIES[fault["family"]][0]
        if not tests:
            return "no tests", None, []
        command = [self.args.kernels[self.worker], *tests.split(","), "--test-threads=1"]
        if fault["family"] in ("attention", "attention_decode"):
            command += ["--skip", "matrix_units"]
        variables = {**self.variables, "HIP_STANDIN_CXX": self.wrapper, "HIP_STANDIN_CODE": "", "KERNEL_FAULT_COMPARE": "1"}
        result, said = first_failure(command, variables, self.args.limit,
                                     lambda line: line.startswith("test ") and "FAILED" in line)
        return result if result in (None, "timeout") else "yes", result, said


# The targets of the suite's tests, and what those tests set.
OWN = {"OPS_ROCM_POLICY": "matmul=hip;linear=hip"}
SHUFFLED = {**OWN, "HIP_STANDIN_GFX": "gfx1201", "HIP_STANDIN_ORDER": "shuffled"}
TARGETS = {
    "gfx1201": SHUFFLED, "gfx90a": {**OWN, "HIP_STANDIN_WAVE": "64"}, "gfx942": {**OWN, "HIP_STANDIN_GFX": "gfx942"},
    "gfx1030": {**OWN, "HIP_STANDIN_GFX": "gfx1030"}, "gfx1010": {**OWN, "HIP_STANDIN_GFX": "gfx1010"},
    "gfx1100": {"HIP_STANDIN_GFX": "gfx1100"}, "one-unit": {"HIP_STANDIN_COMPUTE_UNITS": "1"},
}
ALSO = {"matmul": ["gfx1030"], "attention": ["gfx1030"], "attention_decode": ["gfx1030"], "matmul_mma": ["gfx942", "gfx1100"],
        "attention_mma": ["gfx942", "gfx1100"], "qlinear_mma": ["gfx942", "gfx1100"], "mma_unit": ["gfx942"], "qlinear": ["gfx1010"],
        "qlinear_dot": ["gfx1030"], "conv_mma": ["gfx1100", "gfx942"], "experts_tile": ["gfx1030"], "experts_dot": ["gfx1030"],
        "experts_mma": ["gfx1100", "gfx942"]}


class Suite(Net):
    """The suite's cases of the fault's ops on the stand-in, as its tests run them: few types first, then all."""
    name = "suite"

    def run(self, fault):
        family, said = fault["family"], []
        targets = ["gfx1201", "gfx90a", *ALSO.get(family, []), "one-unit"]
        if family in ("matmul", "attention", "experts_tile"):
            targets = ["gfx1030", "gfx90a", "gfx1201", "one-unit"]
        tries = [(targets[0], "f32"), (targets[0], "f16")]
        if self.args.more:
            tries = [(t, "") for t in targets]
        for target, dtype in tries:
            if family.endswith("mma") and dtype == "f32" or family == "mma_unit" and target not in ("gfx1201", "gfx90a"):
                continue
            variables = {"OPS_ROCM_TEST_INSIDE": "1", "OPS_ROCM_PATH": str(self.args.standin), "OPS_ROCM_CACHE": "",
                         "HIP_STANDIN_CODE": str(self.args.out / "code"), "HIP_STANDIN_CXX": self.wrapper,
                         "OPS_TEST_OP": FAMILIES[family][1], "OPS_TEST_UNTIL_FAILURE": "1", "OPS_TEST_ONE_TYPE_IN": "1",
                         "KERNEL_FAULT_LENIENT": "1", **TARGETS[target], **self.variables}
            if dtype:
                variables["OPS_TEST_DTYPE"] = dtype
            # No op runs the kernels of single instructions: these tests do.
            test = f"golden_products_on_{target}" if family == "mma_unit" else "suite_on_waves_of_32"
            command = [str(self.args.conformance), test, "--exact", "--nocapture", "--test-threads=1"]
            result, more = first_failure(command, variables, self.args.limit, lambda line: "panicked at" in line)
            said += [f"== {target} {dtype}\n", *more]
            if result or self.rejected.exists():
                return "timeout" if result == "timeout" else "yes", f"{target} {dtype}: {result}", said
        return None, None, said


def read(path):
    """Results by fault."""
    return {r["id"]: r for r in map(json.loads, open(path))} if path.exists() else {}


def run_net(args):
    wrapper = args.out / "cxx"
    wrapper.write_text(f'#!/bin/sh\nexec python3 "{__file__}" cxx "$@"\n')
    wrapper.chmod(0o755)
    faults = [json.loads(line) for line in open(args.out / "faults.jsonl")]
    name = args.results or args.net + ("-more" if args.more else "")
    results = args.out / f"{name}.jsonl"
    done, suite, kernels = (read(args.out / f"{n}.jsonl") for n in (name, "suite", "kernels"))
    wanted = {f["id"] for f in faults}
    if args.net == "kernels":  # what the suite finds is not found by this net alone
        wanted = {i for i, r in suite.items() if r["found"] != "yes"}
    if args.more:
        wanted = {i for i, r in suite.items() if r["found"] != "yes" and kernels.get(i, {}).get("found") == "yes"}
    if args.only:
        wanted = {int(i) for i in args.only.split(",")}
    todo = collections.defaultdict(list)
    for fault in faults:
        if fault["id"] in wanted - set(done) and (not args.family or fault["family"] in args.family.split(",")):
            todo[fault["family"]].append(fault)
    queue = sorted(todo.values(), key=lambda faults: (bool(FAMILIES[faults[0]["family"]][0]), -SLOW.index(faults[0]["family"]) if faults[0]["family"] in SLOW else 1))
    lock = threading.Lock()

    def work(worker):
        net = {"kernels": Kernels, "suite": Suite}[args.net](args, worker)
        while True:
            with lock:
                if not queue:
                    return
                mine = queue.pop()
            for fault in mine:
                line = net.find(fault)
                with lock, open(results, "a") as file:
                    file.write(json.dumps(line) + "\n")
                    print(fault["family"], f"{fault['file']}:{fault['line']}", fault["rule"], line["found"], line["where"],
                          line["seconds"], flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        list(pool.map(work, range(args.workers)))


INVALID = ("rejected", "same code")


def print_table(args):
    """By family: faults, how many the suite finds in f32 and f16 on one target, and what became of the others."""
    faults = [json.loads(line) for line in open(args.out / "faults.jsonl")]
    suite, more, kernels, after = (read(args.out / f"{n}.jsonl") for n in ("suite", "suite-more", "kernels", "suite-after"))
    rows = collections.defaultdict(collections.Counter)
    for fault in faults:
        i, row = fault["id"], rows[fault["family"]]
        by_suite, by_kernels = suite.get(i, {}).get("found"), kernels.get(i, {}).get("found")
        if by_suite in INVALID or by_kernels in INVALID:
            row["invalid"] += 1
            continue
        row["faults"] += 1
        later = more.get(i, {}).get("found") == "yes"
        if by_suite == "yes":
            row["suite"] += 1
        elif not FAMILIES[fault["family"]][0]:
            row["no tests"] += 1
        elif i not in suite or i not in kernels:
            row["not run"] += 1
        elif by_kernels == "yes":
            row["kernels"] += 1
            row["suite later" if later else "only kernels"] += 1
            row["after"] += not later and after.get(i, {}).get("found") != "yes"
        else:
            row["neither"] += 1
            row["limit"] += "timeout" in (by_suite, by_kernels)
    columns = ["faults", "suite", "kernels", "suite later", "only kernels", "after", "neither", "no tests", "not run", "invalid"]
    total = collections.Counter()
    print("| family |", " | ".join(columns), "|\n|---|", "|".join(["---:"] * len(columns)), "|", sep="")
    for family, row in sorted(rows.items()):
        total.update(row)
        print("|", family, "|", " | ".join(str(row[c] or "") for c in columns), "|")
    print("| all |", " | ".join(str(total[c]) for c in columns), "|", dict(total))


def main():
    if sys.argv[1:2] == ["cxx"]:
        compile_with_fault(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["list", "run", "table"])
    parser.add_argument("net", nargs="?")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=320)
    parser.add_argument("--kernels", nargs="*", help="the test program of kernels/tests, one for each worker")
    parser.add_argument("--conformance", type=pathlib.Path, help="the test program `suite_on_standin` of ops-rocm")
    parser.add_argument("--standin", type=pathlib.Path, help="the folder of the stand-in's libraries")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", help="the name of the file of results, without .jsonl")
    parser.add_argument("--only", help="ids")
    parser.add_argument("--family")
    parser.add_argument("--more", action="store_true", help="all types on all targets, of faults that the suite missed in f32 and f16")
    args = parser.parse_args()
    args.out = args.out.absolute()
    args.out.mkdir(parents=True, exist_ok=True)
    {"list": lambda args: make_list(args, lambda family: FAMILIES[family][0]), "run": run_net, "table": print_table}[args.step](args)


main()
