# setup
import torch, torch.nn as nn
from fastai.basics import DataLoaders, Learner, SGD
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5))
ds = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randint(0, 5, (640,)))
train, valid = (torch.utils.data.DataLoader(ds, 32, shuffle=s) for s in (True, False))

# %%profile p
learn = Learner(DataLoaders(train, valid), net, loss_func=nn.CrossEntropyLoss(), opt_func=SGD)
with learn.no_logging():
    learn.fit(2, 0.05)
print(learn.train_iter)
