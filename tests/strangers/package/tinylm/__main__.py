"""python -m tinylm --config config/train.yaml"""

import argparse
import csv
import getpass
import logging
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import yaml
from torch.nn.parallel import DistributedDataParallel

from . import __version__, data
from .model import TinyLM

logger = logging.getLogger("tinylm")


@torch.no_grad()
def estimate(model, ids, cfg, generator):
    """The mean loss over some batches, on all ranks together."""
    model.eval()
    size, context = cfg["train"]["batch_size"], cfg["model"]["context"]
    losses = [
        model(*data.batch(ids, size, context, generator)) for _ in range(cfg["train"]["eval_batches"])
    ]
    model.train()
    mean = torch.stack(losses).mean()
    if dist.is_initialized():
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
    return mean.item()


def train(cfg, rank, world):
    settings = cfg["train"]
    train_ids, val_ids, vocab = data.load(**cfg["data"])
    logger.info("%d characters, %d different ones", len(train_ids) + len(val_ids), len(vocab))
    torch.manual_seed(settings["seed"])
    model = raw = TinyLM(len(vocab), **cfg["model"])
    if world > 1:
        model = DistributedDataParallel(raw)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["lr"])
    generator = torch.Generator().manual_seed(settings["seed"] + rank)

    run = Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    rows = []
    if rank == 0:
        run.mkdir(parents=True)
        logger.info("run %s of %s", run, f"{getpass.getuser()}-tinylm-{__version__}")
    for it in range(1, settings["iters"] + 1):
        x, y = data.batch(train_ids, settings["batch_size"], cfg["model"]["context"], generator)
        loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % settings["eval_every"] == 0:
            train_loss = estimate(raw, train_ids, cfg, generator)
            val_loss = estimate(raw, val_ids, cfg, generator)
            logger.info("iter %d train loss %.2f val loss %.2f", it, train_loss, val_loss)
            rows.append((it, train_loss, val_loss))
            if rank == 0:
                checkpoint = {"model": raw.state_dict(), "vocab": vocab, "config": cfg, "iter": it}
                torch.save(checkpoint, run / "ckpt.pt")
    if rank == 0:
        with open(run / "log.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["iter", "train_loss", "val_loss"])
            writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(prog="tinylm")
    parser.add_argument("--config", type=Path, required=True)
    args = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    level = logging.INFO if rank == 0 else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    cfg = yaml.safe_load(args.config.read_text())
    if world > 1:
        dist.init_process_group("gloo")
    train(cfg, rank, world)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
