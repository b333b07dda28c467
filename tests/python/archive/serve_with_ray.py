"""Started by test_serving.py: a deployment's life, one JSON line for what was seen. serve_with_ray.py FOLDER PORT"""

import json
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import ray
import ray_serve
import torch
import tracehost
from ray import serve

folder, port = Path(sys.argv[1]), int(sys.argv[2])
images = torch.frombuffer(bytearray((folder / "images.f32").read_bytes()), dtype=torch.float32)
images = images.view(-1, 64)[:64].tolist()


def post(body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return [error.code, error.read().decode()]


def deploy(name):
    serve.run(ray_serve.app({"archive": str(folder / name)}))


def together(bodies):
    """Asked at the same time."""
    replies = [None] * len(bodies)

    def ask(index):
        replies[index] = post(bodies[index])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


@tracehost.function
def predict(images):
    return {"scores": torch.eye(10)[torch.full((images.shape[0],), 7)]}


spec = tracehost.TensorSpec([None, 64])
tracehost.save(folder / "sevens.thz", {"predict": predict.get_concrete_function(spec)})
(folder / "damaged.thz").write_bytes((folder / "digits.thz").read_bytes()[:-100])

ray.init(num_cpus=2, include_dashboard=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
seen = {"worker": ray.get(ray.remote(lambda: sys.executable).remote())}
deploy("digits.thz")
seen["one by one"] = [post(image) for image in images[:5]]
seen["together"] = together(images)
seen["wrong"] = post([1, 2])

during, ended = [], threading.Event()


def keep_asking():
    while not ended.is_set():
        during.append(post(images[0]))


asking = threading.Thread(target=keep_asking)
asking.start()
try:
    deploy("sevens.thz")
    seen["after the reload"] = [post(image) for image in images[:5]]
    deploy("damaged.thz")
except RuntimeError as error:
    seen["error"] = str(error)
finally:
    ended.set()
    asking.join()
seen["during"] = sorted({json.dumps(reply) for reply in during})
seen["after the failure"] = [post(image) for image in images[:5]]
deployment = serve.status().applications["default"].deployments["Digits"]
seen["cause"] = deployment.message
serve.shutdown()
ray.shutdown()
print(json.dumps(seen))
