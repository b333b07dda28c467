"""Serves the archive of examples/cpp/classify_digits over HTTP, with Ray Serve.

serve run ray_serve:app archive=/models/digits.thz
curl -d "[0.0, 0.1, ...]" localhost:8000       64 numbers; the answer is the digit
"""

import torch
import tracehost
from ray import serve
from starlette.requests import Request
from starlette.responses import PlainTextResponse


@serve.deployment(num_replicas=2, max_ongoing_requests=64)
class Digits:
    """Each replica is a process of its own; requests that come together are one call."""

    def __init__(self, archive: str):
        self.predict = tracehost.load(archive)["predict"]
        self.predict(torch.zeros(1, 64))  # what can't be called takes no requests

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.002)
    async def label(self, images: list[torch.Tensor]) -> list[int]:
        return self.predict(torch.stack(images))["scores"].argmax(1).tolist()

    async def __call__(self, request: Request) -> int | PlainTextResponse:
        try:
            image = torch.tensor(await request.json(), dtype=torch.float32).reshape(64)
        except (ValueError, TypeError, RuntimeError) as error:
            return PlainTextResponse(f"an image is a list of 64 numbers: {error}\n", 400)
        return await self.label(image)


def app(options: dict[str, str]) -> serve.Application:
    return Digits.bind(options["archive"])
