"""Text to batches of characters."""

import hashlib
import logging
import os
from pathlib import Path

import torch

logger = logging.getLogger("tinylm")

CACHE = Path.home() / ".cache" / "tinylm"


def load(path, val_fraction):
    """Return (train, val, vocabulary); the encoded text is cached by its hash."""
    text = Path(path).read_text(encoding="utf-8")
    cached = CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.pt"
    if cached.exists():
        logger.info("using the cache %s", cached)
        saved = torch.load(cached)
        ids, vocab = saved["ids"], saved["vocab"]
    else:
        vocab = sorted(set(text))
        index = {char: i for i, char in enumerate(vocab)}
        ids = torch.tensor([index[char] for char in text], dtype=torch.long)
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(f".{os.getpid()}")
        torch.save({"ids": ids, "vocab": vocab}, partial)
        partial.rename(cached)
    cut = int(len(ids) * (1 - val_fraction))
    return ids[:cut], ids[cut:], vocab


def batch(ids, size, context, generator):
    starts = torch.randint(len(ids) - context - 1, (size,), generator=generator)
    x = torch.stack([ids[s : s + context] for s in starts])
    y = torch.stack([ids[s + 1 : s + 1 + context] for s in starts])
    return x, y
