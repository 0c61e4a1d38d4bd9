"""A FastAPI app: `app` has the middleware added, `wrapped` is an app with the middleware around it.

`narrow` is `wrapped` with a thread pool of two.
"""

import asyncio
import time

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.responses import FileResponse, StreamingResponse
from sojourn_middleware import ASGIMiddleware, mark_started

router = APIRouter(prefix="/things")
app = FastAPI()

nested = FastAPI()


@app.get("/users/{number}")
async def user(number: int):
    await asyncio.sleep(0.05)
    return {"user": number}


@app.get("/blocking")
async def blocking():
    time.sleep(0.15)
    return "the event loop stood still"


@app.get("/thread")
def thread():
    time.sleep(0.15)
    return "in the thread pool, unmarked"


@app.get("/marked")
def marked():
    mark_started()
    time.sleep(0.15)
    return "in the thread pool, marked"


@app.get("/stream")
async def stream():
    async def parts():
        await asyncio.sleep(0.05)
        yield "a"
        await asyncio.sleep(1.0)
        yield "b"

    return StreamingResponse(parts())


@app.get("/file")
async def file():
    return FileResponse(__file__)


@app.get("/error")
async def error():
    raise LookupError("on request")


@app.websocket("/ws")
async def talk(socket: WebSocket):
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


@router.get("/{thing}")
async def thing(thing: str):
    return thing


app.include_router(router, prefix="/v1")
nested.include_router(router)
app.mount("/nested", nested)

plain = FastAPI(routes=app.routes)
wrapped = ASGIMiddleware(plain)
app.add_middleware(ASGIMiddleware)


async def narrow(scope, receive, send):
    current_default_thread_limiter().total_tokens = 2
    await wrapped(scope, receive, send)
