"""Searches tensors of PyTorch: those on the processor are read where they lie, those on a GPU are copied to the host first.

    pip install torch ./python             # in a checkout
    python python/examples/pytorch_tensors.py
"""

import torch

import nearfield as nf


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = torch.nn.Linear(128, 64).to(device)
    documents = encoder(torch.randn(10_000, 128, device=device))  # records gradients: nearfield detaches it

    index = nf.Flat(documents, metric="cosine")
    distances, ids = index.search(documents[:5], k=3)

    # Answers are numpy arrays, which PyTorch reads without a copy.
    similarities, numbers = 1 - torch.from_numpy(distances), torch.from_numpy(ids)
    print(similarities)
    assert numbers[:, 0].tolist() == list(range(5)), "a row is its own nearest neighbour"


if __name__ == "__main__":
    main()
