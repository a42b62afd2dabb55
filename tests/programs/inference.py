"""Call a network without training it. usage: inference.py KIND MODE

generate    ten tokens, one call each; the sequence grows by one token each time
predict     ten calls with the same shape, each followed by another cell
model       ten calls of Model.predict
loops       ten calls each of two networks one after the other, then ten of a compiled function
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

kind, mode = sys.argv[1:]
ms.set_seed(7)
ms.set_device("CPU")
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)


class LanguageModel(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.dense = nn.Dense(8, 50)

    def construct(self, tokens):
        return self.dense(self.embedding(tokens))

    def generate(self, tokens, count):
        for _ in range(count):
            last = self(tokens)[:, -1:]
            tokens = ops.concat((tokens, last.argmax(-1).astype(ms.int32)), 1)
        return tokens


net = LanguageModel()
net.set_train(False)
tokens = Tensor(np.array([[1, 2, 3]], np.int32))
if kind == "generate":
    print(net.generate(tokens, 10).asnumpy().tolist())
elif kind == "predict":
    softmax = nn.Softmax()
    for _ in range(10):
        print(float(softmax(net(tokens)).asnumpy().max()).hex())
elif kind == "model":
    model = ms.Model(net)
    for _ in range(10):
        print(float(model.predict(tokens).asnumpy().max()).hex())
elif kind == "loops":
    for network in (net, LanguageModel()):
        for _ in range(10):
            network(tokens)

    @ms.jit
    def compiled(tokens):
        return net(tokens).sum()

    for _ in range(10):
        compiled(tokens)
