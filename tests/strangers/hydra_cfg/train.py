"""Two moons, Hydra, DDP."""
import logging
import math
import os
from pathlib import Path

import hydra
import torch
import torch.distributed as dist
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split
from tqdm import tqdm

log = logging.getLogger(__name__)


def two_moons(samples: int, noise: float, generator: torch.Generator):
    n = samples // 2
    t = torch.rand(2, n, generator=generator) * math.pi
    upper = torch.stack([t[0].cos(), t[0].sin()], dim=1)
    lower = torch.stack([1 - t[1].cos(), 0.5 - t[1].sin()], dim=1)
    x = torch.cat([upper, lower])
    x = x + noise * torch.randn(x.shape, generator=generator)
    y = torch.cat([torch.zeros(n), torch.ones(n)]).long()
    return TensorDataset(x, y)


def build_model(cfg: DictConfig) -> nn.Module:
    layers: list[nn.Module] = []
    width = 2
    for _ in range(cfg.layers):
        layers += [nn.Linear(width, cfg.hidden), nn.ReLU(), nn.Dropout(cfg.dropout)]
        width = cfg.hidden
    return nn.Sequential(*layers, nn.Linear(width, 2))


def accuracy_of(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            counts[0] += (model(x).argmax(1) == y).sum()
            counts[1] += len(y)
    model.train()
    if dist.is_initialized():
        dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def run_training(cfg: DictConfig, rank: int, world_size: int) -> float:
    generator = torch.Generator().manual_seed(cfg.seed)
    dataset = two_moons(cfg.data.samples, cfg.data.noise, generator)
    n_val = int(len(dataset) * cfg.data.val_fraction)
    train_set, val_set = random_split(dataset, [len(dataset) - n_val, n_val], generator=generator)
    sampler = DistributedSampler(train_set, world_size, rank, seed=cfg.seed)
    loader = DataLoader(train_set, batch_size=cfg.batch_size, sampler=sampler)
    val_sampler = DistributedSampler(val_set, world_size, rank, shuffle=False)
    val_loader = DataLoader(val_set, batch_size=512, sampler=val_sampler)

    torch.manual_seed(cfg.seed)
    model: nn.Module = build_model(cfg.model)
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = instantiate(cfg.optim, params=model.parameters())
    loss_fn = nn.CrossEntropyLoss()

    checkpoints = Path(cfg.checkpoint_dir)
    acc = 0.0
    for epoch in range(cfg.epochs):
        sampler.set_epoch(epoch)
        bar = tqdm(loader, desc=f"epoch {epoch}", disable=rank != 0)
        for x, y in bar:
            optimizer.zero_grad()
            logits = model(x)
            loss = loss_fn(logits, y)
            loss.backward()
            optimizer.step()
            batch_acc = (logits.argmax(1) == y).float().mean().item()
            bar.set_postfix(loss=f"{loss.item():.4f}", acc=f"{batch_acc:.3f}")
        acc = accuracy_of(model, val_loader)
        if rank == 0:
            log.info("epoch %d: val_acc=%.4f", epoch, acc)
            checkpoints.mkdir(parents=True, exist_ok=True)
            state = getattr(model, "module", model).state_dict()
            torch.save({"epoch": epoch, "model": state, "cfg": OmegaConf.to_container(cfg)},
                       checkpoints / "last.ckpt")
    return acc


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> float:
    rank = int(os.environ.get("RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if rank == 0:
        log.info("config:\n%s", OmegaConf.to_yaml(cfg))
        log.info("hydra writes to %s", hydra.core.hydra_config.HydraConfig.get().runtime.output_dir)
    if world_size > 1:
        dist.init_process_group("gloo")
    try:
        return run_training(cfg, rank, world_size)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
