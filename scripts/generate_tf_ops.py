#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generate_tf_ops.py > src/import/graph/tf_ops.c - the operators of TensorFlow that compute and nothing else.

Run by a Python that has TensorFlow (tests/import/requirements-tf.txt): its registry says which operators there are and
which keep a state. Those without one are taken, but for the families that read, write, talk or call Python; of those
with one, the families that models are made of (variables, tables, random numbers, control flow, calls of functions).
What a later TensorFlow adds is unknown to scan until this is run again.
"""

import os
import re

from generated_names import print_names

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tensorflow.core.framework import op_def_pb2  # noqa: E402
from tensorflow.python.client import pywrap_tf_session  # noqa: E402

ACTS = re.compile(
    r"File|Dataset|Debug|^Py|PyFunc|Reader|Record|Save|Load|Dump|Rpc|Remote|TPU|Collective|Send|Recv|Summary|"
    r"Checkpoint|Vocab|Snapshot|Iterator|^Xla|^_|Restore|Worker|Server|Distribut|Dawn|Test|Kernel|Stub"
)
STATE = re.compile(
    r"^(VarHandleOp|VarIsInitializedOp|VariableShape|Variable|VariableV2|ReadVariableOp|Assign\w*VariableOp|"
    r"DestroyResourceOp|TemporaryVariable|Resource(Gather|GatherNd|Scatter\w+|StridedSliceAssign|Apply\w+|"
    r"SparseApply\w+|CountUpTo)|Anonymous\w*HashTable\w*|HashTable(V2)?|Mutable(Dense)?HashTable\w*|"
    r"LookupTable\w+V2|InitializeTableV2|TensorArray\w*|Stack\w*|StatefulPartitionedCall|While|If|Case|Empty|"
    r"Random\w+|Stateful\w+|Stateless\w+|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|Skipgram|"
    r"(All|Learned\w*|Log\w*|ThreadUnsafe\w*|Uniform)CandidateSampler|RngSkip|RngReadAndSkip|NonDeterministicInts|CudnnRNN\w*|CheckNumerics(V2)?|Assert|"
    r"Print|PrintV2|GuaranteeConst|DeviceIndex|SampleDistortedBoundingBox(V2)?|MutexV2|MutexLock|"
    r"ConsumeMutexLock|IsBoosted\w+|BoostedTrees\w+|AddSparseToTensorsMap|AddManySparseToTensorsMap|"
    r"TakeManySparseFromTensorsMap|Timestamp|GraphDefVersion|DisableCopyOnRead)$"
)
STATE_NOT = re.compile(r"Dataset|Iterator|RandomSeedGenerator")
# What TensorFlow puts into functions and graphs that it saves, beside the operators of computation.
ALWAYS = {
    "NoOp",
    "Placeholder",
    "PlaceholderWithDefault",
    "PlaceholderV2",
    "Const",
    "Identity",
    "IdentityN",
    "StringJoin",
    "ShardedFilename",
    "StaticRegexFullMatch",
    "PartitionedCall",
    "DecodeProtoV2",
    "EncodeProto",
}


def main():
    ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())).op
    names = {o.name for o in ops if not o.is_stateful and not ACTS.search(o.name)}
    names |= {o.name for o in ops if STATE.match(o.name) and not STATE_NOT.search(o.name)}
    names |= ALWAYS
    print_names(
        """/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/tf_ops.c - made by scripts/generate_tf_ops.py: operators of TensorFlow that compute and
 * nothing else, sorted by bytes. Not to be changed by hand.
 */""",
        "sft__import_tf_ops",
        "sft__import_tf_op_count",
        names,
    )


if __name__ == "__main__":
    main()
