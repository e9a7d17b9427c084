"""Evaluate a model on test batches that are distributed over all ranks."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from slipway_trainer.training.metrics import Metric
from slipway_trainer.training.tracker import Tracker

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def validation_round(  # noqa: PLR0913, PLR0917 - names and order are those of MLBench
    dataloader: Iterable[tuple[Tensor, Tensor]],
    model: nn.Module,
    loss_function: Callable[[Tensor, Tensor], Tensor],
    metrics: Sequence[Metric],
    run_id: str | None,
    rank: int,
    dtype: str = "fp32",
    transform_target_type: str | None = None,
    use_cuda: bool = False,
    max_batch_per_epoch: int | None = None,
    tracker: Tracker | None = None,
) -> dict[str, Any]:
    """Evaluate `model` on this rank's batches, and return the results aggregated over all ranks.

    Each sample counts once for each rank that has it, so the result is the same whether the test
    set is split between the ranks or complete on each of them. All ranks must call this.

    Args:
        dataloader: This rank's batches (n, …) with their targets (n,).
        model: The model, whose training mode is restored afterwards.
        loss_function: Returns a batch's mean loss.
        metrics: The metrics, in addition to the loss.
        run_id: The run ID for the validation event, if there is no tracker.
        rank: This process's rank, also for that event.
        dtype: fp32, or bf16 or fp16 for autocast.
        transform_target_type: Name of the type to convert targets to.
        use_cuda: Move batches to the GPU first.
        max_batch_per_epoch: The maximum number of batches.
        tracker: Records the values, and checks them against its goal.

    Returns:
        The mean `loss`, and each metric's value under its name.
    """
    tracker = Tracker(metrics, run_id, rank) if tracker is None else tracker
    tracker.validation()
    batches = islice(dataloader, max_batch_per_epoch)
    on_device = ([part.cuda() if use_cuda else part for part in batch] for batch in batches)
    kind = None if transform_target_type is None else getattr(torch, transform_target_type)
    typed = ((data, target if kind is None else target.to(kind)) for data, target in on_device)
    values = evaluate(typed, model, loss_function, metrics, tracker.total, dtype)
    tracker.record_validation(values)
    return values


def evaluate(  # noqa: PLR0913, PLR0917 - as validation_round
    batches: Iterable[tuple[Tensor, Tensor]],
    model: nn.Module,
    loss_function: Callable[[Tensor, Tensor], Tensor],
    metrics: Sequence[Metric],
    total: Callable[..., list[float]],
    dtype: str = "fp32",
) -> dict[str, Any]:
    """Return the same values as `validation_round`; `total` sums numbers over all ranks."""
    was_training = model.training
    model.eval()
    sizes = [2, *(metric.size for metric in metrics)]
    sums: Tensor | None = None
    with torch.no_grad():
        for data, target in batches:
            with torch.autocast(data.device.type, _DTYPES[dtype], enabled=dtype != "fp32"):
                output = model(data)
            output = output.float()
            loss = loss_function(output, target).double().reshape(1)
            parts = [loss * len(target), torch.full_like(loss, len(target))]
            for metric in metrics:
                counted = metric.counts(output, target)
                parts.append(torch.as_tensor(counted, dtype=loss.dtype, device=loss.device))
            counts = torch.cat(parts)
            sums = counts if sums is None else sums + counts
    model.train(was_training)
    summed = iter(total(*([0.0] * sum(sizes) if sums is None else sums.tolist())))
    (losses, samples), *results = [list(islice(summed, size)) for size in sizes]
    values: dict[str, Any] = {"loss": losses / samples}
    for metric, numbers in zip(metrics, results, strict=True):
        values[metric.name] = metric.value(numbers)
    return values
