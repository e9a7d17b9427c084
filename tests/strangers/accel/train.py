import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


def get_dataloaders():
    generator = torch.Generator().manual_seed(1234)
    centers = torch.randn(5, 16, generator=generator) * 0.8
    labels = torch.randint(5, (10_000,), generator=generator)
    points = centers[labels] + torch.randn(10_000, 16, generator=generator)
    train_dataset = TensorDataset(points[:8_000], labels[:8_000])
    eval_dataset = TensorDataset(points[8_000:], labels[8_000:])
    train_dataloader = DataLoader(train_dataset, shuffle=True, batch_size=64)
    eval_dataloader = DataLoader(eval_dataset, shuffle=False, batch_size=250)
    return train_dataloader, eval_dataloader


def training_function(args):
    # Initialize accelerator
    accelerator = Accelerator()
    set_seed(42)
    accelerator.print(f"{accelerator.num_processes} processes, device {accelerator.device}")

    train_dataloader, eval_dataloader = get_dataloaders()
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 64),
        torch.nn.BatchNorm1d(64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 5),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr / 25)
    lr_scheduler = OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.num_epochs, steps_per_epoch=len(train_dataloader)
    )

    # There is no specific order to remember, we just need to unpack the objects in the same order
    # we gave them to the prepare method.
    model, optimizer, train_dataloader, eval_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, eval_dataloader, lr_scheduler
    )

    for epoch in range(args.num_epochs):
        model.train()
        total_loss = 0.0
        for inputs, labels in train_dataloader:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            total_loss += loss.detach().item()
            accelerator.backward(loss)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()

        model.eval()
        accurate = num_elems = 0
        for inputs, labels in eval_dataloader:
            with torch.no_grad():
                predictions = model(inputs).argmax(dim=-1)
            predictions, labels = accelerator.gather_for_metrics((predictions, labels))
            accurate += (predictions == labels).sum().item()
            num_elems += len(labels)

        eval_metric = {"accuracy": accurate / num_elems, "train_loss": total_loss / len(train_dataloader)}
        # Use accelerator.print to print only on the main process.
        accelerator.print(f"epoch {epoch}:", eval_metric)
        accelerator.save_state("ckpt")

    accelerator.end_training()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Simple example of training script.")
    parser.add_argument("--num_epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-2)
    training_function(parser.parse_args())
