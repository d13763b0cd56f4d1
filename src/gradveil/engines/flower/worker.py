"""The node's own executor: it takes orders from its SuperNode and runs the installed package, never code that was sent.

Flower ships an app with every run and would start it again for every message, so that whoever controls the server could
run any code next to the data. A SuperNode in process isolation leaves execution to another process: this loop, which
also keeps compiled programs. It uses parts of flwr that are not public, hence the exact pin.
"""

import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from logging import getLogger
from pathlib import Path

from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from gradveil.engines.flower import sum_wire
from gradveil.engines.flower.sum_wire import Request, Result
from gradveil.errors import BadInput
from gradveil.federation.orders import Refusal

Handle = Callable[[Request], Result]
POLL = 0.2
TRIES = 2
"""Attempts at a request of one task; without a limit, a task of a run that is over would never end."""
_PROTECTED = frozenset({"/flwr.proto.Runtime/AcquireTask"})
_log = getLogger("gradveil.node")


def serve(runtime: str, secret: bytes, handle: Handle) -> None:
    """Take tasks from the SuperNode at `runtime` (host:port) until the process is stopped."""
    # Flower interrupts its own process when a run ends in mid-task; here only the task is over, not the node.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _await_port(runtime)
    client = _client(runtime, SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=_PROTECTED))
    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    handle_in_turn = _one_at_a_time(handle)
    while True:
        response = client.AcquireTask(request)
        if response.HasField("task") and response.token:
            # In a thread of its own: a SuperNode makes a task before it has the message, and if the run ends in between
            # the message never comes. Flower would wait for it for two hours, and the next order must not.
            task = _client(runtime, RuntimeTokenHttpInterceptor(response.token), tries=TRIES)
            threading.Thread(target=do, args=(task, handle_in_turn), daemon=True).start()
        else:
            time.sleep(POLL)


def _one_at_a_time(handle: Handle) -> Handle:
    """Return a handler that handles one order at a time."""
    lock = threading.Lock()

    def handled(request: Request) -> Result:
        with lock:
            return handle(request)

    return handled


def _await_port(runtime: str) -> None:
    """Wait until the SuperNode listens; Flower's own retries grow to many seconds."""
    host, _, port = runtime.rpartition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=1):
                return
        except OSError:
            time.sleep(POLL)


def do(client: RuntimeHttpClient, handle: Handle) -> None:
    """Do one task: pull the message, handle it, push the reply.

    A failure on one message must not end the node. A task whose reply could not be pushed is not concluded: its
    SuperNode waits for a reply, and makes its own only after a minute without the task's heartbeat.
    """
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    context: Context | None = None
    try:
        message, context, _, _ = pull_task_input(client)
        push_message(client, reply(message, handle), context)
    except Exception as error:
        _log.error("no reply could be sent to a message: %s", location_of(error))
        if context is None:
            _conclude(client, None, SubStatus.FAILED, type(error).__name__)
    else:
        _conclude(client, context, SubStatus.COMPLETED, "")
    finally:
        # Not joined: Flower answers a late heartbeat with 401, after which that thread sleeps for long.
        heartbeat._stop_event.set()


def _conclude(client: RuntimeHttpClient, context: Context | None, status: str, details: str) -> None:
    """Report how a task ended; the run may be over by now, which is no failure of the node."""
    try:
        push_task_output(client, context, status, details)
        client.close()
    except Exception as error:
        _log.error("a task could not be concluded: %s", location_of(error))


def reply(message: Message, handle: Handle) -> Message:
    """Return the reply to a message. Of an error the server learns the type only: its text could hold a record."""
    try:
        result = handle(sum_wire.unpack_request(message.content))
    except BadInput as error:
        result = Refusal(str(error))
    except Exception as error:
        _log.error("an order failed: %s", location_of(error))
        failed = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=type(error).__name__)
        return Message(failed, reply_to=message)
    return Message(sum_wire.pack_result(result), reply_to=message)


def location_of(error: Exception) -> str:
    """Return the type of an error and where it arose, without its text, which could hold a record."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name}, {Path(last.filename).name}:{last.lineno}"


def _client(runtime: str, *more: object, tries: int | None = None) -> RuntimeHttpClient:
    invoker = make_simple_http_retry_invoker()
    invoker.max_tries = tries if tries is not None else invoker.max_tries
    return RuntimeHttpClient.from_server_address(
        server_address=runtime,
        insecure=True,  # the SuperNode of this very host, on loopback
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"), *more],  # type: ignore[list-item]
        retry_invoker=invoker,
    )
