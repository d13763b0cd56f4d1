"""The owner's side of a SuperLink: nodes are registered, and a run is executed by the process that starts it.

Flower would leave the execution to a SuperExec, which executes any app that anybody submitted. Here no submitted code
is ever executed: the server half is the installed package, in its owner's process. It uses parts of flwr that are not
public, hence the exact pin.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.common.constant import SubStatus
from flwr.common.serde import run_from_proto
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, StartRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from gradveil.engines.flower import apps
from gradveil.engines.flower.commands import SuperLinkConfig
from gradveil.errors import BadInput, RunFailed

POLL = 0.2
CLAIM = 60.0
"""Seconds within which Flower must offer a started run for execution."""
_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_log = getLogger("gradveil.server")


class Owner:
    """Authenticates requests to the gate as the owner's."""

    def __init__(self, config: SuperLinkConfig) -> None:
        self._headers = config.credentials()

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> object:
        """Add the secret to a request."""
        context.request.headers.update(self._headers)
        return call_next(context)


def register(config: SuperLinkConfig, nodes: tuple[str, ...]) -> None:
    """Register nodes by their public keys and names, except those that are registered already."""
    client = _control(config)
    registered = {node.public_key for node in client.ListNodes(ListNodesRequest()).nodes_info}
    for node in nodes:
        key = _public_key(config.keys / f"{node}.pub")
        if key not in registered:
            client.RegisterNode(RegisterNodeRequest(public_key=key, name=node))
    client.close()


def _public_key(path: Path) -> bytes:
    if not path.exists():
        raise BadInput(f"keys = {str(path.parent)!r}: holds no {path.name}, the public key of that node")
    key: bytes = public_key_to_bytes(load_ssh_public_key(path.read_bytes()))  # type: ignore[arg-type]
    return key


@contextmanager
def run(config: SuperLinkConfig) -> Iterator[Grid]:
    """Start a run that this process executes, and yield its grid; report to the SuperLink how it ended."""
    token = _claimed(config, _started(config))
    grid = HttpGrid(config.address, root_certificates=config.authority(), token=token)
    invoker = grid._retry_invoker
    grid._client = client = _runtime(config, RuntimeTokenHttpInterceptor(token), retry_invoker=invoker)
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    task_input = client.PullTaskInput(PullTaskInputRequest())
    TaskIdentity.task_id, TaskIdentity.run_id = task_input.task_id, task_input.run.run_id
    TaskIdentity.node_id = task_input.context.node_id
    grid.set_run(run_from_proto(task_input.run))
    status = SubStatus.FAILED
    try:
        yield grid
        status = SubStatus.COMPLETED
    finally:
        heartbeat._stop_event.set()
        invoker.max_tries = 1  # the run is over, and no SuperLink need be waited for
        _conclude(client, status)


def _conclude(client: RuntimeHttpClient, status: str) -> None:
    try:
        client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        client.close()
    except Exception as error:
        _log.error("the end of the run could not be reported to the SuperLink (%s)", type(error).__name__)


def _started(config: SuperLinkConfig) -> int:
    """Start a run and return its number."""
    client, content = _control(config), apps.fab()
    fab = Fab(hash_str=hashlib.sha256(content).hexdigest(), content=content)
    response = client.StartRun(StartRunRequest(fab=fab))
    client.close()
    if not response.HasField("run_id"):
        raise RunFailed("Flower did not accept the run")
    number: int = response.run_id
    return number


def _claimed(config: SuperLinkConfig, run_id: int) -> str:
    """Acquire the task of this run, and return the token that its requests need.

    Tasks that crashed runs left behind are acquired too, and left to expire.
    """
    secret = config.secret.read_bytes()
    client = _runtime(config, SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={_ACQUIRE}))
    end = time.monotonic() + CLAIM
    while time.monotonic() < end:
        response = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
        if response.HasField("task") and response.task.run_id == run_id:
            client.close()
            token: str = response.token
            return token
        time.sleep(POLL)
    raise RunFailed(f"Flower did not offer the run within {CLAIM:g} s")


def _control(config: SuperLinkConfig) -> ControlHttpClient:
    return ControlHttpClient.from_server_address(
        config.address,
        False,
        config.authority(),
        [Owner(config)],  # type: ignore[list-item]
        retry_invoker=make_simple_http_retry_invoker(),
    )


def _runtime(config: SuperLinkConfig, *more: object, retry_invoker: object = None) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")
    return RuntimeHttpClient.from_server_address(
        config.address,
        False,
        config.authority(),
        [Owner(config), version, *more],  # type: ignore[list-item]
        retry_invoker=retry_invoker or make_simple_http_retry_invoker(),  # type: ignore[arg-type]
    )
