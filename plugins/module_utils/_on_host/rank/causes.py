# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an engine ended, by what it printed: one sentence with what to do. Pure.

Programs end with a statement: a Python exception, an assertion, an error of Docker's client, NCCL's warning. What only
points at another statement counts for nothing, and the last that is left is the cause. Its kind brings the remedy.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

_LONGEST = 280
# Lines that belong to a statement, and lines that are shown where there is none.
_MORE, _READ_ON, _SHOWN = 6, 40, 3
# Of a line.
_READ = 2000


@dataclass(frozen=True)
class Cause:
    """elsewhere: the rank ended since another one did, whose own log says why."""

    found: str
    remedy: str
    elsewhere: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.found}: {self.remedy}"


# Kinds ------------------------------------------------------------------------------------------------------------

# What was found, what to do, and the patterns of its statements, one after the other; those before count for more.
_KINDS = r"""
Docker does not start the container -> mend what its words name; `journalctl --unit docker` may say more
   OCI runtime(?!.*nvidia-container).*(?:apparmor|[/ \"]cgroup)
more context is asked for than the model or the KV pool holds -> lower workload.context, or give the pool more memory
   greater than the derived|max seq len \(|can be stored in KV cache|longer than the (?:model|derived)
   KV cache length.*exceeds|Impossible to fit|context length .*(?:greater|longer|exceeds)|exceeds? .*max_position
   KV cache is needed|max_seq_len.*(?:exceed|large)
a file of the model is damaged or cut off -> run site.yml, which brings files that are missing or damaged
   SafetensorError|within the file bounds|invalid magic|bad magic|unexpectedly reached end of file|missing bytes
   PytorchStreamReader failed|corrupt file|UnpicklingError|MetadataIncompleteBuffer|InvalidHeader|HeaderTooLarge
   tensor .* (?:offset|size) mismatch|(?<!data )is corrupted|failed to read (?:magic|header|key|tensor)
   EOFError: (?:Ran out|short)|codec can't decode
a file of the model is missing -> run site.yml, which brings files that are missing or damaged
   annot find any (?:model weights|.*safetensors)|could not find any model
   No (?:such file|safetensors).*(?:\.(?:safetensors|bin|gguf|pt)\b|adapter_config)
   \.(?:safetensors|bin|gguf)\W*(?:was |is )?(?:not found|No such file)|(?:split|shard).*(?:missing|not found)
   weights were not initialized(?!.{0,40}'(?:visual|vision|audio|mtp))|[Ww]eight files|MissingWeight|invalid split
   unable to open (?:file|model)|failed to open GGUF file|no file named .*(?:safetensors|bin)
   [Ff]ailed to load (?:CLIP|draft|LoRA|lora|multimodal)|lora_adapter_init: failed to open|Does this file exist
   No adapter found
the model's folder is not there, or its config or tokenizer can't be read
-> run site.yml, which brings files that are missing or damaged
   Invalid repository ID or local directory|(?<!or )not a (?:local folder|valid model identifier|directory)
   does not appear to have a file named|(?:Repo id|repo_id) must|HFValidationError|not a valid JSON
   TypeError: not a string|   Unrecognized model in|Could not locate|untagged enum|ModelWrapper
   (?:load|read|find|pars(?!er)|convert|instantiat).*(?<!pre-)[Tt]okenizer(?!s? ?(?:class|Backend|\.ggml))
   did not match any variant|load image_processor|[Cc]an't load (?:the configuration|[\w ]+ for ')
   [Uu]nrecognized \w+ processor|HuggingFace processor|EOF while parsing
   (?<!requests\.exceptions\.JSONDecodeError: )Expecting value: line|config file exists|sentencepiece|tiktoken
   model.*(?:path|folder|directory).*(?:not exist|not found)|Found 0 files
it asks the hub for a model, and does not reach it -> name models by what the recipe brings; site.yml fetches them
   LocalEntryNotFound|OfflineModeIsEnabled|find the requested files|outgoing traffic|connect to 'https://hugg|gated repo
   (?:[Ee]rror|[Ff]ailed|[Uu]nable|[Cc]annot|[Cc]ould not) (?:to )?(?:be )?download|GatedRepo|RepositoryNotFound
   Client Error: |(?<!load it from 'https://)huggingface\.co(?!/docs)|NameResolutionError|MaxRetryError
the model brings code of its own, which the recipe does not allow
-> read that code; then write "trust-remote-code: true" in the recipe's flags, and run site.yml
   trust[-_]remote[-_]code|execute the configuration file
the image has no kernel for this GPU -> take an image that is built for GB10 (sm_121), as the shipped recipes have
   no kernel image|sm_?12[01]|sm_\d+a?' is not defined|unsupported toolchain|not compatible with the current PyTorch
   PTXAS|ptxas fatal|No supported CUDA arch|kernel image is invalid|load any common_ops|compute capability
   CUDA capability|[Uu]nsupported (?:SM|GPU|arch(?!itectures))|OutOfResources|out of resource: shared memory|NoKernel
   [Nn]o valid .*(?:kernel|backend)|Only SM ?\d|an SM\d+-family|requires? (?:GPUs? with )?(?:SM|sm)|for Blackwell
   supported in this arch|Invalid thread config|No \w+ (?:MoE )?backend|op not supported|No operator found
   device with capability|PassManager|compiled with any CUDA arch|arch=\d|invalid device function|device capability
   MLIRError|allocator was set|ScaledMM|(?:on|for) (?:your|this|the current) (?:device|GPU)|[Mm]inimum capability
   (?:Blackwell|Hopper) [Aa]rch|NVRTC|[Nn]o kernel found|SF transformation|TMA (?:WS|descriptor)
   ^(?!.*backend).*(?:support.*\bSM ?\d\d|\bSM ?\d\d.*support)
the image is for another kind of processor -> take an image for arm64
   exec format error|linux/arm64|host platform|Illegal instruction(?!,)
the NVIDIA driver was updated under the running kernel
-> restart the host, unless `ansible-playbook gb10.fleet.doctor` shows restart-known-bad
   [Dd]river/library version mismatch|API mismatch
Docker can't give the container the GPU
-> run site.yml for NVIDIA's toolkit; after a driver's update restart the host, unless doctor shows restart-known-bad
   could not select device driver|CDI device|invalid runtime name|nvidia-container|error running (?:prestart )?hook
   libnvidia-ml\.so|/dev/nvidia|libcuda\.so
the engine sees no GPU that it can use
-> see what `ansible-playbook gb10.fleet.doctor` says of its driver; restart the host unless it shows restart-known-bad
   driver version is insufficient|NVIDIA driver|No (?:CUDA|GPU) (?:GPUs|devices)|no CUDA-capable device
   infer device type|is/are busy|available devices: 0|not yet initialized|CUDA unknown error
   [Ff]ailed to initialize (?:NVML|CUDA)|NVML|CUDA initialization|No CUDA runtime|find any CUDA|NoDevice|no accelerator
   (?:cuda|CUDA).*is not available|0 active drivers|[Nn]o supported gpu|invalid device ordinal|system has unsupported
   CUDA driver library
Docker does not answer -> `systemctl status docker` says why
   Docker daemon|waiting for container
a container of that name is there already -> remove it by `docker rm --force` and its name
   container name .* in use
the image is not on this host -> run site.yml, which brings it
   No such image|layer does not exist|pull access denied|manifest unknown|Unable to find image|pulling image
Docker's own rules are gone from the packet filter, as after `nft flush ruleset` or a restart of nftables.service
-> site.yml, or `sudo systemctl restart docker`, makes them again
   No chain/target/match by that name
a folder or file that the container gets is not there -> run site.yml, which makes it
   source path does not exist|invalid mount config|not a directory: unknown|error mounting
the image lacks a program or library, or has another build of it -> take another build, or its own entrypoint
   executable file not found|error while loading shared|undefined symbol|cannot open shared object
   stat \S+: no such file|ModuleNotFoundError(?!.*transformers_modules)|[Nn]inja|nvcc|CUDA_HOME|ImportError
   PackageNotFoundError|DistributionNotFound|[Ff]ailed to import|cannot import|operator (?:\S+ )?does(?:n't| not) exist
   no backends are|C compiler|\b(?<!CUDA )is not (?:available|installed)|No such file or directory: '[\w+-]+'
   _OpNamespace|\d+ (?:positional )?arguments?\(s\)|not compiled with|compiled without|built without
   pip install (?!-|git)|fatal error: \S+\.h|already used by a Transformers|incompatible function arguments
   Tried to instantiate class|same version of|No such file.*(?:dist|site)-packages|engine plan file
   Library lib\S+ is not|\d\.\d+(?:\.\d+)? or (?:newer|later|higher)
the engine does not know an option -> take it out of the recipe, or take an image that has it; then run site.yml
   invalid argument \S+ for "-|unrecognized argument|invalid argument: -|No such option|[Uu]nknown (?:argument|option)
   ambiguous option|(?:[Cc]onfig|Args|main|serve)\w*(?:\.__init__)?\(\) got an unexpected keyword|unknown flag
   [Ee]xtra inputs are not permitted|extra_forbidden|no_such_attribute
the engine does not know a parser of tools or reasoning -> write one that the image's release has in the recipe
   (?:[Tt]ool|[Rr]easoning)[-_ ](?:call[-_ ])?parser|function_call_parser|FunctionCallParser
its port is taken -> `ss -ltnp` says who has it; stop that, or declare another port
   Ports are not available|already running at|[Aa]ddress already in use|EADDRINUSE|bind HTTP server|Errno 98
   already allocated|[Pp]ort \d+ (?:is|was) (?:already |not )?(?:in use|taken|available)|cannot assign requested address
   Errno 99
the pool has fewer blocks than requests that may run at once -> lower max-num-seqs, or give the pool more memory
   max_num_seqs.*blocks|[Mm]amba cache blocks|num_gpu_blocks|alloc_req_slots
no memory is left for the KV pool beside the weights -> plan a smaller workload, or stop what else runs (`docker ps`)
   No available memory for the cache|Not enough memory|memory for (?:KV ?cache|kv\b)|Loading weights already
   mem[-_]fraction[-_]static|memory capacity|desired GPU memory|kv_cache_memory|free_gpu_memory_fraction
   [Mm]emory profiling|Not enough (?:space|host memory)|max_blocks_per_seq > 0
NCCL finds no RDMA device or interface -> `ansible-playbook gb10.fleet.doctor`; or declare `transport: socket`
   any NET plugin|No device found|no (?:socket )?interface|Unable to find (?:interface|address)|class/infiniband
   NET/Plugin.*fail|^(?!.*ibv_\w+qp).*GID|IFNAME|resolve hostname|getaddrinfo|Name or service not known
RDMA between the ranks fails -> `ansible-playbook gb10.fleet.doctor` looks at fabric and driver
   ibv_\w+|IBV_WC|NET/IB|completion .*status|[Rr]etry (?:count(?:er)? )?exceeded|libibverbs|RDMA|nvidia_peermem|\bGDR
the container's /dev/shm has no room -> remove what dead engines left in /dev/shm (`ls -l /dev/shm`), or enlarge it
   /dev/shm|shm-size|shared memory (?:segment|object)|insufficient shared|Bus error|SIGBUS|shm_open
   shared memory.*(?:space|room|small)|ShmRing|psm_
a disk is full -> `df -h` says which; make room there
   ^(?!.*(?:/cgroup|inotify)).*(?:[Nn]o space left|Errno 28|ENOSPC)|[Dd]isk quota
a limit of the container is too low -> raise it (`--ulimit nofile`, `--pids-limit`)
   [Tt]oo many open files|Errno 24|can't start new thread|[Rr]esource temporarily unavailable|Errno 11\b|inotify
a process was killed -> `journalctl -k -g oom-kill` shows whether memory ran out; then plan a smaller workload
   code:? -9\b|SIGKILL|^Killed$|\d Killed\b|signal 9\b|': -9\b
memory ran out -> plan a smaller workload or KV pool, or stop what else takes this host's memory (`docker ps`)
   [Oo]ut of memory|OutOfMemory|std::bad_alloc|[Cc]annot allocate memory|[Ff]ailed to allocate|unable to allocate
   can't allocate|MemoryError|not enough memory|MemoryAllocation|ALLOC_FAILED|Errno 12|memory monitor
   alloc(?!ator).*failed|[Ii]nsufficient
it may not read or write a file -> look at that file's owner and mode, as the container sees them
   [Pp]ermission ?[Dd]enied|PermissionError|Errno 13|Read-only file system|Errno 30|Operation not permitted
the TLS certificate and its key do not fit, or can't be read -> look at the files that the service's `tls` names
   SSLError|X509|PEM (?:lib|routines)
the ranks have different images or settings -> run site.yml for all hosts of the service
   already checked in|[Vv]ersion mismatch|[Mm]ismatched? (?:versions|NCCL)|invalid usage|config hash
   configuration mismatch|across ranks|Message truncated|RPC server version
Ray's ranks do not have the same token -> run site.yml for all hosts of the service
   RAY_AUTH|AuthenticationError|[Uu]nauthenticated|UNAUTHENTICATED|[Aa]uth(?:entication)? token|InvalidAuth
fewer ranks have joined than the service needs -> `ansible-playbook gb10.fleet.status` shows the other ranks
   [Pp]lacement group|enough slots|node types can fulfill|required GPUs exceeds|Current node has no GPU
   not enough (?:GPU|node)|larger than the number of available GPU|required resources|[Ww]orld size(?!.* divi)
   nnodes (?!.*divi)|mpiSize
one step took longer than the engine waits for -> raise it (docs/explanation/cluster.md), or find what holds the ranks
   Timeout at NCCL|detected by watchdog|Watchdog timeout|RPC call to \w+ timed out|execute_model timed out
   ChannelTimeout
a process of Ray ended -> the other ranks may say why: `ansible-playbook gb10.fleet.status`
   Some Ray subprocesses
a rank can't be reached -> `ansible-playbook gb10.fleet.status` shows the other ranks, gb10.fleet.doctor the fabric
   GCS (?:at|server|within)|get system config|[Ff]ailed to connect
   [Cc]onnect(?:ion)? (?:to \S+ )?(?:failed|refused|timed out)|connect\(\) timed out|Timed out initializing
   ConnectionRefused|socketStart|socketPoll|No route to host|is unreachable
   (?:client socket|wait|rendezvous).* ?time(?:d ?|-)out|DistNetworkError|DistStoreError|Timed out (?:after|waiting)
   connectFullMesh|with raylet|timed out during startup|start GCS|start one or more daemons|RendezvousTimeout
   wait timeout after|store->get|Ray cluster|ray instance|bootstrap
a kernel failed on the GPU -> `journalctl -k -g NVRM` shows the driver's words; if it comes again, take another image
   illegal memory access|launch failure|device-side assert|CUBLAS_STATUS|CUDNN_STATUS|misaligned address|Xid
   (?<!Worker )failed with error|invalid configuration argument|cudaSuccess|uncorrectable ECC|LaunchFailure
   illegal instruction was|fallen off|running GEMM|Triton Error|\.cuh?:\d+:(?: fatal error|.* Assertion)
   (?:cutlass|cuDNN|cuBLAS|FlashInfer).*(?:[Ee]rror|[Ff]ail)
CUDA failed
-> see what `ansible-playbook gb10.fleet.doctor` says of its driver; restart the host unless it shows restart-known-bad
   CUDA (?:\w+ )?error|cudaError|Cuda failure|CUDA_ERROR
the image's release does not know the model -> take an image of a release that has it, or another recipe
   does not recognize this|has no v\w+ implementation|unknown model arch|unrecognized tensor type|[Mm]odel arch
   [Uu]nsupported (?:model|arch)|Unknown architecture|architecture \S+ is not supported|invalid gg(?:ml|uf) type
   unknown projector|not supported for now|not supported in TRT|Tokenizer class|pre-tokenizer|Unrecognized config
   No processor registered|failed to be inspected|(?<! in )\b\w+For(?:CausalLM|ConditionalGeneration)\b(?! requires)
   not a multimodal|is not a registered model
the checkpoint, its config and the image's release do not fit together -> take another release or recipe
   no module or parameter|weights were not initialized|KeyError: '[\w.]*(?:layers|experts|weight|scale|proj)
   size mismatch|split_with_sizes|wrong shape|shape (?:mismatch|'\[)|[Ww]eight.{0,40} shape|(?<!logits)\.shape\b.* ==\s
   divisible by|tensor a .* must match|(?:missing|find|unknown) tensor|tensor .*(?:not found|wrong)|exceeds dimension
   [Ii]nput tensor|(?<!the )same dtype|mat1 and mat2|rope_scaling|LoRA weight|disabling jinja|number of tensors
   loading model vocabulary|not found in model|vocab type must match|wrong (?:array |element )*(?:type|length)
   loaded_weight|param_data|Missing key|Unexpected key|load weight|weights of size
   (?:[Cc]onfig|Model|ForCausalLM|Layer|Linear|Parameter|Head)\w*'? (?:object )?has no attribute|assert .*\bweights?\b
   tensor attribute|remaining_buffer_size|a \+ length|vocab size|not all shards
   ^KeyError: '(?![A-Z]+'|[0-9a-f]{32})[^ ']+'|No \w+ layers found|missing from model|expected scalar type
   unordered_map::at|multiple config files|[Uu]nexpected [\w-]+ tensor|sizes must align|[Vv]ocabular(?:y|ies)
the engine crashed -> take another build of the image; a report belongs to the engine's project
   [Ss]egmentation fault|SIGSEGV|Segfault|Fatal Python error|core dumped|SIGABRT|SIGILL|stack smashing|double free
   to unpack|_dynamo\.exc|torch\.fx|': -(?:4|6|7|11)\b|Inductor|BackendCompiler|has no attribute
   ^(?:TypeError(?!.*(?: --|must be a (?:subclass|dict)|requires ))|IndexError|UnboundLocalError|NameError)
   ^(?:RecursionError|ZeroDivision)|'NoneType'|errors\.CompilationError|panicked|PanicException
   GGML_ASSERT|: Assertion [`'].* failed|terminate called(?!.*what\(\))
NCCL fails between the ranks -> `ansible-playbook gb10.fleet.doctor` looks at fabric and driver
   NCCL (?:error|WARN)|nccl\w+Error|unhandled (?:system|cuda) error
Docker does not start the container -> mend what its words name; `journalctl --unit docker` may say more
   Error response from daemon|OCI runtime
the engine refuses a setting -> change it in the recipe, and run site.yml
   error: argument|while handling argument|invalid choice|validation error|[Mm]ust (?:be|use)|should be
   is expected(?! to)|\bexpect(?:s|ed)\b.*(?:\bgot\b|one of|to be)|unsupported|[Ii]nvalid(?! or incomplete)
   cannot be(?! acce)|can't be|can not|[Oo]nly .*support|is required|incompatible|not support|n't support|supports? only
   supports? \S+ only|% \w*(?:tp|world|parallel)\w*_size\b|not allowed|has been removed|limit allowed|is not valid
   Do not set|[Cc]onflict|not match|mutually|\b[Uu]nknown |Unsupported|No such file(?! or directory(?:$|.*cache))
   not found|requires\b|n't exist|is (?:greater|larger) than|must \w+ (?:to|exactly)|minimum allowed|forked subprocess
   ^NotImplementedError: |(?<![\w-])--[a-z][\w-]{3,}|\b(?:[VT](?:RT)?LLM|SGL(?:ANG)?|NCCL|GGML|LLAMA|RAY)_[A-Z]
   may be (?:configured|set|used)|has no effect|not compatible|currently (?:requires|supports)|not implemented for
   only (?:applicable|available)|[Uu]nexpected (?:extra|config)|unavailable on
   (?:[Pp]lease|[Cc]onsider|[Tt]ry) (?:(?:re)?set|us|adjust|disabl|enabl|reduc|lower|increas|specify|chang|remov)
   Buffer overflow|find the config|is not enabled|arguments are required|Expected .* to be true
"""


# Between the words of a pattern: without an end a line of nothing but such words takes minutes.
_BETWEEN = ".{0,160}"


def _kinds() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    for found, remedy, patterns in re.findall(r"^(\S.*?)\s-> (.+)\n((?: {3}.+\n)+)", _KINDS, re.MULTILINE):
        wanted = "|".join(line[3:] for line in patterns.splitlines())
        yield found, remedy, re.compile(wanted.replace(".*", _BETWEEN))


_COMPILED = [*_kinds()]
# The last kind's words stand in many an internal check, too, which names no setting.
_SETTING = re.compile(
    r"--[a-z]|\b[Aa]rg|ption|onfig|etting|\b[Ff]lag|\b[A-Z]{3,}_[A-Z_]{3}|lease|able\b|backend|[Qq]uant|dtype|arallel|"
    r"max[_-]|num[_-]|_(?:size|len|token)|mode|upport|validation error|choice|LoRA|cache|error: |docker: |"
    r"No such file|minimum|start method|one of|mplemented|[Cc]onnector|[Ss]pecul|[Dd]raft|\b[DTEPC]C?P\b"
)
# Of what only says that something else failed, the words that say how. The second: who did it is for others to tell.
_HOW = re.compile(r"Worker failed with error")
_KILLED = re.compile(r"code:? -9\b|': -\d+\b|signal 9\b|^Killed$|\d Killed\b")
_ELSEWHERE = re.compile(
    r"[Cc]onnection (?:closed|reset) by (?:remote )?peer|remote process exited|got 0 bytes|recvValue failed|"
    r"sendBytes failed|dump\" flag|has been lost|(?:actor|raylet|worker|node|rank|peer)\b.{0,80}(?:died|dead|"
    r"exited(?! on signal)|terminated|closed|crashed|lost)|Died(?:Error)?\b|RayActorError|WorkerCrashed|"
    r"RPC server (?:crashed|disconnected)|"
    r"Socket recv failed|RemoteError|collective operation timeout|connection was lost|ncclRemote|Lost connection"
)

# Statements -------------------------------------------------------------------------------------------------------

# The time, process, level and place that engines write before their words.
_TIME = r"\d{2,4}[-/]\d\d(?:[-/]\d{2,4})?[-T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:[+-]\d\d:?\d\d|Z)?"
_BEFORE = re.compile(
    r"(?:\((?:raylet|[\w.:-]+(?: [\w.:=-]+)?[ ,]*(?:pid|ip)=[^)]*)\)|\[rank\d+\]:|"
    rf"\[(?!{_TIME} [DIW] \d){_TIME}[^\]]*\]|{_TIME}|"
    r"\[(?:TensorRT-LLM|TRT-LLM|RANK \d+|ERROR|E)\]|(?:ERROR|CRITICAL|FATAL)(?::(?: {3})?|\b)|"
    r"\[?[\w./-]+\.\w+:\d+\]|- [\w.]+ - [A-Z]+ -)(?: |$|(?=\[))|(?:[\w.-]+ *| +)\| |│ |"
    r"\| (?:ERROR|CRITICAL) +\| (?:[\w.:]+ [|-] )?|"
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )?(?:[\w.-]+ )?[\w.@-]+\[\d+\]: |"
    r"\d+\.\d\d\.\d{3}\.\d{3} (?:[EF] +(?:(?:srv|cmn|slot|que) +)?)?"
)
_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# What Ray adds to a line.
_REPEATED = re.compile(r" \[repeated \d+x across cluster\].*$")
# Of no failure, whatever words are in it.
_CHATTER = re.compile(
    rf"\[{_TIME} [DIW] \d|"
    r"\s*(?:(?:INFO|DEBUG|WARNING|WARN)\b|[IWD] \w+|\[(?:[IW]\d{0,4}|INFO|WARNING)\b)|.*(?:NCCL INFO|Warning: )|"
    r"frame #\d|gb10\.fleet: |.*(?:server_args=|Namespace\(|, disabling |: skipping |, using: |"
    r"graph, reserving|, call reserve|Decode out of memory happened)|\S+: line \d+: (?!.*Killed)|"
    r"llama_model_loader: - |load_backend: "
)
# Where engines print what was wrong with a request.
_ASKED = re.compile(r"\bserving(?:_\w+)?\.py|_tool_parser\.py")
_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_<][\w>]*\.)*[A-Z]\w*(?:Error|Exception|Timeout|Fault|Failure|NotFound|Interrupt|Exit|Enabled|"
    r"Resources|Expired)(?:\([\w.]+\))?(?::\s|:?$|\(['\x22])|Exception: "
)
_CHAINED = re.compile(r"(?:During handling of the above|The above exception was the direct)")
_NOISE = re.compile(
    r".*\d+%\||.*it/s\]|CUDA kernel errors might|For debugging|Compile with|For further information|Search for `|"
    r"ninja: Entering|FAILED: |(?:\[\d+/\d+\] )?\S*(?:nvcc|c\+\+|g\+\+|gcc) -|Possible solutions|\d\. (?:disable|set|"
    r"use|specif)|You can suppress|import torch|torch\._dynamo\.config|Open an issue|\s*\^+$"
)
# What only says that something else failed, or comes of an end.
_WRAPPER = re.compile(
    r"root cause|[Ee]ngine core init|Exception raised from|[Ss]ee (?:the )?stack trace|stack trace above|"
    r"Worker failed with error|"
    r"[Ee]xecutor worker returned|EngineDead|EngineCore (?:encountered|failed to start)|RayTaskError|SystemExit|"
    r"KeyboardInterrupt|CancelledError|BrokenPipe|ZMQError(?!: Address)|Executor failed|"
    r"^EOFError\b(?!: (?!connection closed))|"
    r"ChildFailedError|ProcessRaisedException|ProcessExited|scheduler died|"
    r"(?:[Cc]ore|[Pp]roc|[Ww]orker|[Ee]xecutor|:) [Ii]nitialization failed\.?$|^[Ii]nitialization failed|"
    r"Server process|[Ee]ngine process .*(?:failed|died)|Error executing method|RequestException|Received sigquit|"
    r"output_handler failed|KeyError: '/(?:psm_|mp-)|died unexpectedly|cancelled|Leaking|leaked|resource_tracker|"
    r"is not a fatal|interpreter shutdown|in a TaskGroup|background task failed|raised:$|"
    r"^Error in .*generator|^srun: error|URLError|"
    r"validation errors? for \w*(?:Request|Response|Choice|Message)|^UnboundLocalError: .*variable 'e'|"
    r"'(?:Process|PyTorchModelEngine)' object has no attribute '_?c"
)
# What says that NCCL or CUDA failed, and leaves the reason to others.
_WEAK = re.compile(
    r"^Aborted|code:? -9\b|CalledProcessError|CUDA error$|NCCL error|DistBackendError|ncclSystemError|"
    r"ncclInternalError|Call to CUDA function failed|be inspected|^[\w.]*TimeoutError\b(?!:)"
)
# A line that is a statement by itself: an error's level, an assertion, C++'s words of an exception, NCCL's warnings.
_NATIVE = re.compile(
    r"docker: |ssh: |terminate called|\s*(?:what\(\):|-->) |.*\bNCCL WARN |GGML_ASSERT|"
    r".*Assert(?:ion)?\b.*(?:failed|error)|\S+\.(?:cpp|cuh?|cc|c|h):\d+: |(?:[\w. -]+: |CUDA )?[Ee]rror[: ]|"
    r".*: error: |\w+: error |.*\bfatal\b|.*[Ff]ailed|"
    r".*couldn't|.*error loading model|There are not enough|The node with|Some Ray subprocesses|\[Errno \d|"
    r"(?:llama|ggml|gguf|clip|mtmd|common)\w*: .*\b(?:requires|must be|must match|not supported|no backends|invalid|"
    r"unknown|missing|wrong|not compatible)|.*: (?:invalid|cannot|unable|missing)|exec |nvidia-container-cli: |"
    r"/bin/sh: \d|.*\bExpected .* to be|"
    r"Encountered an error|Value '|This kernel |(?:Unsupported|Invalid|Cannot|Can't|Could not|Missing|Unknown) |"
    r".*(?:terminat(?:ed with|ing due to uncaught) exception|detected by watchdog|disabling jinja)|"
    r".*(?:Bus error|Segmentation fault|Illegal instruction|core dumped)|"
    r".*(?:noticed that process|[Uu]nable to|[Tt]imeout|timed out|[Ff]atal|CRITICAL|panicked at|[Oo]ut of memory)"
)
_OF_LOADING = re.compile(
    r"[Ff]ailed to load (?:the )?(?:CLIP )?(?:model|draft model|multimodal model)|failed to load model from|"
    r"failed to create[ _]context|failed to fit|fit params|exiting due|failed to initialize (?:the )?context: *$"
)
_DOCKER, _HELP = re.compile(r"(?:docker|Error response|permission denied while)\b"), re.compile(r"'docker \w+ --help'")
_PLACE = re.compile(r"^(?:\S+:\d+:\d+ \[\d+\] (?:\S+ )?(?=NCCL))|^\s*(?:what\(\):|-->) +")


_COMPARE = "compare the recipe with the image's release and the model"


def cause(lines: Iterable[str]) -> Cause | None:
    """None where they hold no statement of a failure."""
    bare = [line for printed in lines if (line := _bare(printed)).text.strip()]
    native = [_PLACE.sub("", statement) for statement in _natives(bare)]
    raised = [*_exceptions(bare)][::-1]
    statements = sorted([*raised, *native], key=lambda item: bool(_WEAK.search(item)))
    here = [statement for statement in statements if not _ELSEWHERE.search(statement)]
    here = [statement for statement in here if not statement.startswith("Aborted")] or here
    if not here:
        if not statements:
            how = [line.text for line in bare[::-1] if _HOW.search(line.text)]
            return _kind_of(how) or (Cause(_short(how[0]), _COMPARE) if how else None)
        gone = statements[:1]
        remedy = "`ansible-playbook gb10.fleet.status` shows the other ranks"
        return Cause(f"another rank ended first ({_short(gone[0])})", remedy, elsewhere=True) if gone else None
    found = _kind_of([own for own in here if own in raised and not _WEAK.search(own)] or here)
    return found or Cause(_short(here[0]), _COMPARE)


def _kind_of(statements: Iterable[str]) -> Cause | None:
    """Of the first that has one."""
    for statement in statements:
        for found, remedy, kind in _COMPILED:
            if (match := kind.search(statement)) and (kind != _COMPILED[-1][2] or _SETTING.search(statement)):
                return Cause(f"{found} ({_short(statement, match.start())})", remedy)
    return None


def explained(lines: Sequence[str]) -> str:
    """For a sentence: the cause, or the last lines."""
    killed = (line.text for line in map(_bare, reversed(lines)) if _KILLED.search(line.text))
    found = cause(lines) or _kind_of(killed)
    if found is not None:
        return found.sentence
    last = [line.strip() for line in lines if line.strip() and not _HELP.search(line)][-_SHOWN:]
    return f"the cause is unknown; its last output: {_short(' | '.join(last) or 'nothing')}"


def _short(statement: str, at: int = 0) -> str:
    """The words around a place in them."""
    words = " ".join(statement.split())
    begin = max(0, min(at - _LONGEST // 3, len(words) - _LONGEST))
    before, after = "... " if begin else "", " ..." if len(words) > begin + _LONGEST else ""
    return f"{before}{words[begin : begin + _LONGEST]}{after}"


@dataclass(frozen=True)
class _Line:
    """before: what the engine wrote before the words, without its numbers: lines of one statement have the same."""

    before: str
    text: str


def _bare(line: str) -> _Line:
    """The words of a line; none of chatter."""
    line = _REPEATED.sub("", _COLOR.sub("", line.rstrip("\r\n").rpartition("\r")[2])[:_READ])
    text = line
    while found := _BEFORE.match(text):
        text = text[found.end() :]
    before = re.sub(r"\d+", "", line[: len(line) - len(text)])
    return _Line(before, "" if _CHATTER.match(text) or _ASKED.search(before) else text.rstrip())


def _exceptions(bare: Sequence[_Line]) -> Iterator[str]:
    """Each with the lines that belong to it, as they were printed; of a chain the last that says more than that another
    one failed."""
    in_traceback, is_ignored, code, before = False, False, "", ""
    for at, line in enumerate(bare):
        text = line.text
        if _TRACEBACK in text:
            in_traceback, code = True, ""
        elif text.startswith("Exception ignored in"):
            is_ignored = True
        elif text[0] in " \t" and "what(): " not in text and not _EXCEPTION.match(text.lstrip()):
            code = code if _NOISE.match(text) else text.strip()
        elif _EXCEPTION.match(text.lstrip()) or (in_traceback and re.match(r"[A-Za-z_][\w.]*(?:: |$)", text)):
            was_ignored, in_traceback, is_ignored = is_ignored, False, False
            after = bare[at + 1 : at + 1 + _READ_ON]
            if not _WRAPPER.search(text):
                more = islice(_more(line, after), _MORE)
                before = " ".join([text.lstrip(), *more, *([code] if ":" not in text and code else [])])
            if not (after and _CHAINED.match(after[0].text)):
                if before and not was_ignored:
                    yield before
                before = ""
    if before:
        yield before


def _more(line: _Line, after: Sequence[_Line]) -> Iterator[str]:
    """Those of a statement, without the noise between them, such as a compiler's commands."""
    for one in after:
        if (
            one.before != line.before
            or _TRACEBACK in one.text
            or _CHAINED.match(one.text)
            or _EXCEPTION.match(one.text)
        ):
            return
        if not _NOISE.match(one.text):
            yield one.text.strip()


def _natives(bare: Sequence[_Line]) -> Iterator[str]:
    """Lines that are statements by themselves. Those that say what it means for the load come after the others."""
    found = [(at, line.text) for at, line in enumerate(bare) if line.text[0] not in " \t" or _PLACE.match(line.text)]
    lines = [(at, text) for at, text in found if _NATIVE.match(text) and not _EXCEPTION.match(text)]
    for at, text in sorted(lines, key=lambda line: bool(_OF_LOADING.search(line[1]))):
        if not _WRAPPER.search(text) and _TRACEBACK not in text:
            whole = _DOCKER.match(text) or "validation error" in text
            goes_on = _MORE if whole else 2 * (text.rstrip(" |").endswith(":") or text.startswith("terminate called"))
            more = [one.text.strip() for one in bare[at + 1 : at + goes_on] if not _HELP.search(one.text)]
            yield " ".join([text, *more])
