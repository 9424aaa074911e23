"""Ops run without the interpreter's lock, in many threads at once."""

import threading
import time

import numpy as np
import rocm_ops


def test_other_threads_run_meanwhile():
    a = np.random.default_rng(0).standard_normal((500, 500)).astype(np.float32)
    stop, ticks = threading.Event(), []

    def count():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    other = threading.Thread(target=count)
    other.start()
    time.sleep(0.01)
    begin = time.perf_counter()
    rocm_ops.call("matmul", (a, a), backend="reference")
    end = time.perf_counter()
    stop.set()
    other.join()
    during = [tick for tick in ticks if begin < tick < end]
    # With the lock, there would be one at most.
    assert len(during) > 5, (len(during), end - begin)


def test_many_threads_compute_what_one_does():
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((64, 256)).astype(np.float32) for _ in range(8)]
    weight = np.ones(256, np.float32)
    expected = [rocm_ops.rms_norm(x, weight, eps=1e-5) for x in inputs]
    wrong = []

    def work(x, want):
        for _ in range(200):
            if not np.array_equal(rocm_ops.rms_norm(x, weight, eps=1e-5), want):
                wrong.append(1)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
