"""
you give this script some words (one per line) and it will generate more things like it.
uses a little MLP a la Bengio et al. 2003, or a tiny transformer. pure torch, one file.
"""

import os
import time
import math
import argparse

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import Dataset, DataLoader

class MLP(nn.Module):
    """ takes the previous block_size tokens, concatenates their embeddings, predicts the next """

    def __init__(self, vocab_size, block_size, n_embd, n_hidden):
        super().__init__()
        self.block_size, self.vocab_size = block_size, vocab_size
        self.wte = nn.Embedding(vocab_size + 1, n_embd) # +1 for a special <BLANK> token before the start
        self.mlp = nn.Sequential(nn.Linear(block_size * n_embd, n_hidden), nn.Tanh(), nn.Linear(n_hidden, vocab_size))

    def forward(self, idx):
        embs = []
        for k in range(self.block_size):
            embs.append(self.wte(idx))
            idx = torch.roll(idx, 1, 1)
            idx[:, 0] = self.vocab_size
        return self.mlp(torch.cat(embs, -1))

class Transformer(nn.Module):

    def __init__(self, vocab_size, block_size, n_embd, n_hidden):
        super().__init__()
        self.block_size = block_size
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, n_hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx):
        T = idx.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        x = self.wte(idx) + self.wpe(torch.arange(T))
        return self.lm_head(self.blocks(x, mask=mask, is_causal=True))

# data

class CharDataset(Dataset):

    def __init__(self, words, chars, max_word_length):
        self.words, self.max_word_length = words, max_word_length
        self.stoi = {ch: i + 1 for i, ch in enumerate(chars)}
        self.itos = {i: s for s, i in self.stoi.items()} # inverse mapping

    def __len__(self):
        return len(self.words)

    def decode(self, ix):
        return ''.join(self.itos[i] for i in ix)

    def __getitem__(self, idx):
        ix = torch.tensor([self.stoi[w] for w in self.words[idx]], dtype=torch.long)
        x = torch.zeros(self.max_word_length + 1, dtype=torch.long)
        y = torch.full((self.max_word_length + 1,), -1, dtype=torch.long) # -1 masks the loss
        x[1:1 + len(ix)] = ix
        y[:len(ix)] = ix
        y[len(ix)] = 0 # the end token
        return x, y

def create_datasets(input_file):
    with open(input_file, 'r') as f:
        words = [w.strip() for w in f.read().splitlines() if w.strip()]
    chars = sorted(set(''.join(words)))
    max_word_length = max(len(w) for w in words)
    print(f"{len(words)} examples in the dataset, {len(chars)} unique characters")
    rp = torch.randperm(len(words)).tolist()
    n_dev = min(1000, len(words) // 10)
    train, dev = [words[i] for i in rp[:-n_dev]], [words[i] for i in rp[-n_dev:]]
    print(f"split up the dataset into {len(train)} training examples and {len(dev)} dev examples")
    return CharDataset(train, chars, max_word_length), CharDataset(dev, chars, max_word_length)

def loss_of(model, X, Y):
    logits = model(X)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), Y.view(-1), ignore_index=-1)

@torch.inference_mode()
def evaluate(model, dataset):
    model.eval()
    losses = [loss_of(model, X, Y).item() for X, Y in DataLoader(dataset, batch_size=50)]
    model.train()
    return sum(losses) / len(losses)

@torch.no_grad()
def print_samples(model, dataset, num=10):
    idx = torch.zeros(num, 1, dtype=torch.long)
    for _ in range(dataset.max_word_length):
        probs = F.softmax(model(idx.clone())[:, -1], dim=-1)
        idx = torch.cat((idx, torch.multinomial(probs, 1)), dim=1)
    for row in idx[:, 1:].tolist():
        print(dataset.decode(row[:row.index(0)] if 0 in row else row))

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description="Make More")
    parser.add_argument('--input-file', '-i', type=str, default='names.txt', help="input file with things one per line")
    parser.add_argument('--work-dir', '-o', type=str, default='out', help="output working directory")
    parser.add_argument('--max-steps', type=int, default=1500, help="max number of optimization steps to run for")
    parser.add_argument('--type', type=str, default='mlp', help="model class type to use, mlp|transformer")
    parser.add_argument('--n-embd', type=int, default=32)
    parser.add_argument('--n-hidden', type=int, default=128)
    parser.add_argument('--batch-size', '-b', type=int, default=32)
    parser.add_argument('--learning-rate', '-l', type=float, default=2e-3)
    parser.add_argument('--seed', type=int, default=3407)
    args = parser.parse_args()
    print(vars(args))

    torch.manual_seed(args.seed)
    os.makedirs(args.work_dir, exist_ok=True)
    train_dataset, dev_dataset = create_datasets(args.input_file)
    vocab_size, block_size = len(train_dataset.stoi) + 1, train_dataset.max_word_length + 1
    model = (Transformer if args.type == 'transformer' else MLP)(vocab_size, block_size, args.n_embd, args.n_hidden)
    print(f"model #params: {sum(p.numel() for p in model.parameters())}, loss at chance: {math.log(vocab_size):.4f}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.1)
    loader = DataLoader(train_dataset, batch_size=args.batch_size, shuffle=True)

    best_loss, step = None, 0
    while step < args.max_steps:
        for X, Y in loader:
            t0 = time.time()
            loss = loss_of(model, X, Y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step} | loss {loss.item():.4f} | step time {(time.time() - t0) * 1000:.1f}ms")
                dev_loss = evaluate(model, dev_dataset)
                if best_loss is None or dev_loss < best_loss:
                    out_path = os.path.join(args.work_dir, "model.pt")
                    print(f"dev loss {dev_loss:.4f} is the best so far, saving model to {out_path}")
                    torch.save(model.state_dict(), out_path)
                    best_loss = dev_loss
            if step >= args.max_steps:
                break
    print(f"best dev loss: {best_loss:.4f}")
    print_samples(model, train_dataset)
