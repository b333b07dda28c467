"""State that training loops keep: counters, schedules, averages, logs."""

import math

import torch
from torch import nn
from value_programs import program


@program
def ema_schedule():
    class S:
        pass

    s = S()
    s.step = 0
    s.avg = torch.zeros(4)

    def body(x):
        s.step += 1
        decay = min(0.999, (1 + s.step) / (10 + s.step))
        s.avg.mul_(decay).add_(x.detach(), alpha=1 - decay)
        return s.avg / (1 - decay**s.step), decay

    return body, dict(state=lambda: (s.step, s.avg))


@program
def early_stopping():
    class ES:
        def __init__(self):
            self.best = float("inf")
            self.bad = 0
            self.stop = False

        def __call__(self, loss):
            if loss < self.best - 1e-3:
                self.best = loss
                self.bad = 0
            else:
                self.bad += 1
                if self.bad >= 2:
                    self.stop = True
            return self.stop

    es = ES()

    def body(x):
        loss = x.square().mean().item()
        return es(loss), loss

    return body, dict(state=lambda: (es.best, es.bad, es.stop))


@program
def grad_accumulation():
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    st = {"i": 0, "updates": 0}

    def body(x):
        loss = net(x).square().mean() / 3
        loss.backward()
        st["i"] += 1
        if st["i"] % 3 == 0:
            opt.step()
            opt.zero_grad()
            st["updates"] += 1
        return loss.item()

    return body, dict(state=lambda: (st, [p.detach().clone() for p in net.parameters()]))


@program
def curriculum():
    class C:
        size = 2

    c = C()

    def body(x):
        y = x[: c.size].sum()
        if y.item() > 0:
            c.size = min(c.size + 1, x.shape[0])
        return y, c.size

    return body, dict(args=lambda i: (torch.randn(6) + i % 2,), state=lambda: c.size)


@program
def while_patience():
    def body(x):
        patience, prev, it = 0, float("inf"), 0
        while patience < 2 and it < 20:
            x = x * 0.7
            cur = x.abs().sum().item()
            if prev - cur < 0.3:
                patience += 1
            else:
                patience = 0
            prev = cur
            it += 1
        return x, it, prev

    return body


@program
def metrics_logging():
    log = []

    def body(x):
        loss = x.square().mean()
        log.append({"loss": loss.item(), "max": x.max().item()})
        return loss

    return body, dict(state=lambda: log)


@program
def lr_warmup_cosine():
    class Opt:
        step = 0

    o = Opt()
    w = torch.zeros(4)

    def body(x):
        o.step += 1
        if o.step < 4:
            lr = o.step / 4
        else:
            lr = 0.5 * (1 + math.cos(math.pi * (o.step - 4) / 10))
        w.sub_(lr * x.detach())
        return lr, w.clone()

    return body, dict(state=lambda: (o.step, w))


@program
def reduce_lr_plateau():
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=1.0)
    sch = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5)

    def body(x):
        with torch.enable_grad():
            loss = net(x).square().sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        sch.step(loss.item())
        return loss.detach(), opt.param_groups[0]["lr"]

    return body, dict(state=lambda: (sch.best, sch.num_bad_epochs, opt.param_groups[0]["lr"]))


@program
def running_stats_obj():
    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.val = self.avg = self.sum = 0.0
            self.count = 0

        def update(self, val, n=1):
            self.val = val
            self.sum += val * n
            self.count += n
            self.avg = self.sum / self.count

    m = Meter()

    def body(x):
        m.update(x.mean().item(), x.shape[0])
        if m.count >= 20:
            m.reset()
        return x * m.avg

    return body, dict(state=lambda: vars(m))


@program
def accuracy():
    tot = {"correct": 0, "n": 0}

    def body(x):
        pred = x.view(2, 2).argmax(1)
        tot["correct"] += pred.eq(torch.tensor([0, 1])).sum().item()
        tot["n"] += pred.size(0)
        return tot["correct"] / tot["n"]

    return body, dict(state=lambda: tot)


@program
def loss_scaler():
    class S:
        scale, good = 8.0, 0

    s = S()
    net = nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)

    def body(x):
        with torch.enable_grad():
            opt.zero_grad()
            (net(x).sum() * s.scale).backward()
        gn = torch.sqrt(sum(p.grad.square().sum() for p in net.parameters())).item()
        if math.isfinite(gn) and gn < 40:
            for p in net.parameters():
                p.grad.div_(s.scale)
            opt.step()
            s.good += 1
            if s.good % 2 == 0:
                s.scale *= 2
        else:
            s.scale /= 2
            s.good = 0
        return gn

    return body, dict(
        state=lambda: (s.scale, s.good, [p.detach().clone() for p in net.parameters()])
    )


@program
def amp_scaler():
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def body(x):
        with torch.enable_grad():
            opt.zero_grad()
            loss = net(x).square().sum()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            n = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
        return loss.detach(), n, scaler.get_scale()

    return body, dict(
        args=lambda i: (torch.randn(3, 4) if i != 3 else torch.full((3, 4), float("inf")),),
        state=lambda: [p.detach().clone() for p in net.parameters()],
    )


@program
def onecycle():
    net = nn.Linear(4, 2)
    opt = torch.optim.AdamW(net.parameters(), lr=0.1)
    sch = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=20)

    def body(x):
        with torch.enable_grad():
            opt.zero_grad(set_to_none=True)
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            sch.step()
        return loss.detach(), sch.get_last_lr()

    return body, dict(
        args=lambda i: (torch.randn(3, 4),),
        state=lambda: ([p.detach().clone() for p in net.parameters()], opt.param_groups[0]["lr"]),
    )


@program
def lambda_sched():
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    sch = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 0.5 ** (e // 2))

    def body(x):
        with torch.enable_grad():
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            sch.step()
        return loss.item(), opt.param_groups[0]["lr"]

    return body, dict(
        args=lambda i: (torch.randn(3, 4),),
        state=lambda: [p.detach().clone() for p in net.parameters()],
    )


@program
def swa():
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    avg = torch.optim.swa_utils.AveragedModel(net)
    st = {"n": 0}

    def body(x):
        with torch.enable_grad():
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
        st["n"] += 1
        if st["n"] > 2:
            avg.update_parameters(net)
        return avg(x).detach().sum()

    return body, dict(
        args=lambda i: (torch.randn(3, 4),),
        state=lambda: (st, [p.detach().clone() for p in avg.parameters()]),
    )


@program
def grad_penalty_every():
    net = nn.Linear(4, 1)
    st = [0]

    def body(x):
        st[0] += 1
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            out = net(x).sum()
            if st[0] % 2 == 0:
                (g,) = torch.autograd.grad(out, x, create_graph=True)
                out = out + g.square().sum()
        return out.detach()

    return body, dict(args=lambda i: (torch.randn(3, 4),), state=lambda: st)


@program
def dynamic_loss_weight():
    class W:
        w = 1.0
        prev = None

    s = W()

    def body(x):
        loss = x.square().mean()
        cur = loss.item()
        if s.prev is not None:
            if cur > s.prev:
                s.w = min(s.w * 1.1, 10)
            else:
                s.w = max(s.w * 0.9, 0.1)
        s.prev = cur
        return loss * s.w

    return body, dict(state=lambda: (s.w, s.prev))


@program
def replay_ring():
    buf = torch.zeros(4, 3)
    st = {"pos": 0, "full": False}

    def body(x):
        buf[st["pos"]] = x[:3].detach()
        st["pos"] = (st["pos"] + 1) % 4
        if st["pos"] == 0:
            st["full"] = True
        n = 4 if st["full"] else st["pos"]
        return buf[:n].mean(0)

    return body, dict(
        state=lambda: (st, buf),
    )


@program
def eps_greedy():
    class A:
        eps = 1.0
        steps = 0

    a = A()

    def body(q):
        a.steps += 1
        a.eps = max(0.1, a.eps * 0.8)
        if torch.rand(()).item() < a.eps:
            act = torch.randint(0, q.shape[0], ()).item()
        else:
            act = q.argmax().item()
        return act, a.eps

    return body, dict(state=lambda: (a.eps, a.steps))
