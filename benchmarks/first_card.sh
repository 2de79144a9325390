#!/bin/sh
# Run what no GPU has run yet, in an order in which little time tells much, and keep a record.
#
#   sh benchmarks/first_card.sh [--parts "1 2 3"] [--total SECONDS] [--limits PERCENT] [DEVICE [FOLDER]]
#   sh benchmarks/first_card.sh --prepare
#
# DEVICE is `cuda`, or `cpu` for a trial of this script at small sizes, where tests that need a GPU are skipped. FOLDER
# is $OUT by default, or results/first-card; paths are relative to the root of the tree. It gets
#
#   record.md  the outcome of each part, written as soon as the part has ended
#   parts.tar  all files of the parts that have ended: logs, gpu.json, gpu.md
#   part/      the files of the part that was running, if the script was killed
#
# A part that fails or reaches its limit does not stop the others. No part runs for longer than `--total` seconds (840)
# from the beginning. `--limits 300` makes all limits three times as long, for a machine that other work slows.
#
#   1  versions, nvidia-smi                                                            15 s
#   2  recorded steps of one model, and of an LSTM, against plain ones                 40 s
#      if it fails: without cuDNN, and with CUDA_LAUNCH_BLOCKING=1, 40 s each
#   3  benchmarks/gpu.py with two models, one round                                    60 s
#   4  benchmarks/gpu.py with all models                                              280 s
#   5  every model is replayed; trainings that were stopped go on                     120 s
#   6  tests/models/test_cuda.py                                                      180 s
#   7  precisions, failed recordings and short memory; gpu.py in float32              120 s
#   8  gpu.py beside an older version, a checkout in $OLD                              90 s
#   9  gpu.py beside JoeyNMT and OpenNMT-py in $PEERS (data/peers)                     90 s
#
# It reaches no network. It needs
#
#   - Of the tree pam, config, tests, benchmarks, pyproject.toml, 7 MB; results/ has 60 MB and can stay behind.
#   - Python, $PYTHON or python3, with torch for CUDA, pytest and the packages that pyproject.toml requires. Where some
#     are missing: `pip install --target DIR` them from files that were brought, and name DIR in PYTHONPATH.
#   - Data, prepared before by `--prepare` (a minute or two, 40 MB) into data/first-card/translation (IWSLT14-35k in 4,000
#     subwords) and data/first-card/summaries (news, 20,000 words). Git ignores data/, so a copy of the tree has to be
#     told to take it along; $FIRST_CARD_DATA names another folder. Where it is missing, a mirror of the texts in
#     $PAM_MIRROR, shared/corpora or ../shared/corpora is prepared, which takes sacremoses and that minute on the GPU's
#     machine. Where there is no mirror either, or where this fails, text is drawn at random, of the same sizes, and the
#     record says why.
#   - timeout, tar, and nvidia-smi for the first part.

set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
script=benchmarks/first_card.sh
folder_of_data=${FIRST_CARD_DATA:-data/first-card}

# The data.

mirror() { # DATASET: print the first mirror that has it
    for place in "${PAM_MIRROR:-}" shared/corpora ../shared/corpora; do
        if [ -n "$place" ] && [ -d "$place/$1" ]; then
            echo "$place"
            return 0
        fi
    done
    echo "no mirror has $1 (PAM_MIRROR, shared/corpora, ../shared/corpora)" >&2
    return 1
}

prepare_text() { # NAME MIRROR DATASET FORMAT: prepare a data set of a mirror
    raw=$folder_of_data/raw-$1
    made=$folder_of_data/part-$1
    rm -rf "$raw" "$made"
    "$python" -m pam fetch --dataset "$3" --mirror "$2" --out "$raw" &&
        "$python" -m pam prepare --dataset "$3" --raw "$raw" --out "$made" --format "$4" &&
        rm -rf "${made:?}/extract" "${made:?}/tokenize" "${made:?}/segment" "$raw" &&
        rm -f "$made"/*.txt &&
        rm -rf "${folder_of_data:?}/$1" &&
        mv "$made" "$folder_of_data/$1"
}

prepare_named() { # translation or summaries
    case $1 in
    translation)
        found=$(mirror iwslt14-deen-35k) &&
            prepare_text "$1" "$found" iwslt14-de-en-35k '{subwords: {merges: 4000}}'
        ;;
    summaries)
        found=$(mirror cnndm-see-39k) &&
            prepare_text "$1" "$found" cnndm-see-39k "{truncate: {source: 200, target: 50},
                vocabulary: {size: 20000, joint: true}, sample: {train: 3000, dev: 320, test: 100}}"
        ;;
    *)
        echo "unknown data: $1" >&2
        return 2
        ;;
    esac
}

draw() { # NAME FOLDER ROWS: draw text at random and prepare it
    rm -rf "$2"
    "$python" benchmarks/artificial.py "$1" "$2/text" --rows "$3" &&
        "$python" -m pam fetch --dataset artificial --registry "$2/text/registry.yaml" --out "$2/raw" &&
        "$python" -m pam prepare --dataset artificial --registry "$2/text/registry.yaml" --raw "$2/raw" --out "$2/data"
}

case ${1:-} in
--prepare)
    status=0
    for name in ${2:-translation summaries}; do
        prepare_named "$name" || status=1
    done
    du -sh "$folder_of_data"/*
    exit $status
    ;;
--draw)
    shift
    draw "$@"
    exit
    ;;
esac

# The command line.

parts="1 2 3 4 5 6 7 8 9"
total=840
percent=100
while :; do
    case ${1:-} in
    --parts) parts=$2 ;;
    --total) total=$2 ;;
    --limits) percent=$2 ;;
    -*)
        echo "unknown option: $1" >&2
        exit 2
        ;;
    *) break ;;
    esac
    shift 2
done
device=${1:-cuda}
out=${2:-${OUT:-results/first-card}}

case $device in
cuda)
    sizes=
    rows_of_pairs=12000
    rows_of_articles=6000
    ;;
cpu)
    sizes="--units 8 --summary-units 8 --batch-size 8 --batches 2 --seconds 0.2"
    rows_of_pairs=300
    rows_of_articles=120
    CUDA_VISIBLE_DEVICES=
    export CUDA_VISIBLE_DEVICES
    ;;
*)
    echo "the device is cuda or cpu, not $device" >&2
    exit 2
    ;;
esac

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
rm -rf "$out/record.md" "$out/parts.tar" "$out/part"
PYTHONUNBUFFERED=1
export PYTHONUNBUFFERED
began=$(date +%s)
outcomes=

# Parts and their record.

record() {
    printf '%s\n' "$@" >>"$out/record.md"
}

note() { # add the outcome of a part to the list at the end
    outcomes="$outcomes- $1
"
}

left() { # print the seconds until no part may run
    echo $((began + total - $(date +%s)))
}

bounded() { # LIMIT: print the limit of a part, or what is left
    limit=$(($1 * percent / 100))
    rest=$(left)
    if [ "$rest" -lt "$limit" ]; then
        limit=$rest
    fi
    echo "$limit"
}

in_words() { # STATUS
    case $1 in
    0) echo passed ;;
    124 | 137) echo "stopped at its limit" ;;
    *) echo "failed with status $1" ;;
    esac
}

pack() { # NUMBER OUTCOME: record the part that has ended, and keep its files
    record '' "## $2" '' '```'
    tail -n 25 "$out/part/log" | cut -c1-300 >>"$out/record.md"
    record '```'
    if [ -f "$out/part/gpu.md" ]; then
        record ''
        cat "$out/part/gpu.md" >>"$out/record.md"
    fi

    rm -rf "$out/part-$1"
    mv "$out/part" "$out/part-$1"
    tar -C "$out" -rf "$out/parts.tar" "part-$1" && rm -rf "$out/part-$1"
}

part() { # NUMBER TITLE LIMIT COMMAND...: run a part; return its status
    number=$1
    title=$2
    limit=$3
    shift 3
    if [ "$limit" -lt 5 ]; then
        record '' "## $number. $title: left out, the time is up"
        note "$number. $title: left out, the time is up"
        return 1
    fi

    part_began=$(date +%s)
    mkdir -p "$out/part"
    timeout -k 10 "$limit" "$@" >"$out/part/log" 2>&1 &
    wait $!
    status=$?

    seconds=$(($(date +%s) - part_began))
    outcome="$number. $title: $(in_words $status) after $seconds s (limit $limit s)"
    note "$outcome"
    pack "$number" "$outcome"
    return $status
}

tests() { # NUMBER TITLE LIMIT PYTEST'S ARGUMENTS...
    tests_number=$1
    tests_title=$2
    tests_limit=$(bounded "$3")
    shift 3
    part "$tests_number" "$tests_title" "$tests_limit" \
        "$python" -m pytest -q -p no:cacheprovider --durations=5 "$@"
}

measure() { # NUMBER TITLE LIMIT ARGUMENTS OF gpu.py...
    # The script itself ends before its limit, with 40 s for its last turn and for the end of its processes.
    measure_number=$1
    measure_title=$2
    measure_limit=$(bounded "$3")
    shift 3
    if [ "$measure_limit" -ge 120 ]; then
        inner=$((measure_limit - 40))
    else
        inner=$((measure_limit * 3 / 4))
    fi
    # shellcheck disable=SC2086 -- the sizes are several words
    part "$measure_number" "$measure_title" "$measure_limit" \
        "$python" benchmarks/gpu.py --device "$device" --out "$out/part" --data "$translation" \
        --limit "$inner" $sizes "$@"
}

finish() { # HOW
    record '' "## Outcome of all parts, $device" '' "$outcomes" "$1 after $(($(date +%s) - began)) s."
}

stopped() {
    trap '' TERM INT HUP
    # The folder is there as long as a part is running.
    if [ -d "$out/part" ]; then
        kill -TERM "${!:-}" 2>/dev/null
        wait
        note "$number. $title: stopped from outside"
        pack "$number" "$number. $title: stopped from outside"
    fi
    finish "Stopped from outside"
    exit 143
}
trap stopped TERM INT HUP

wants() { # NUMBER: check whether a part is asked for
    case " $parts " in
    *" $1 "*) return 0 ;;
    *) return 1 ;;
    esac
}

data_of() { # NAME ROWS: set $found to a folder of prepared data; empty if there is none
    found=$folder_of_data/$1
    if [ "$device" = cpu ] || ! has_data "$1"; then
        found=$folder_of_data/drawn-$1-$2/data
        [ -f "$found/train.safetensors" ] ||
            part "data-$1-drawn" "draw $1 at random" "$(bounded 60)" \
                sh "$script" --draw "$1" "$folder_of_data/drawn-$1-$2" "$2" ||
            found=
    fi
    record '' "Data of $1: ${found:-none}"
}

has_data() { # NAME: check for real data, and prepare them where a mirror has the text
    [ -f "$folder_of_data/$1/train.safetensors" ] ||
        part "data-$1" "prepare $1" "$(bounded 120)" sh "$script" --prepare "$1"
}

# The parts.

record "# First run on a card, $(date -u +%Y-%m-%dT%H:%M:%SZ), device $device"

if wants 1; then
    # shellcheck disable=SC2016 -- the quoted shell expands it
    part 1 "versions" "$(bounded 15)" sh -c '
        nvidia-smi
        "$0" -c "
import platform, sys
print(sys.version)
import torch
print(\"torch\", torch.__version__, \"CUDA\", torch.version.cuda, \"cuDNN\", torch.backends.cudnn.version())
print(\"devices\", [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())])
import pam.experiments.settings
from pam.runtime import devices
print(devices.versions(), platform.platform())
"' "$python"
fi

if wants 2; then
    file=tests/training/test_cuda.py
    chosen="seed_alone or cpu_do or lstm"
    if ! tests 2 "recorded steps against plain ones" 40 "$file" -k "$chosen"; then
        part 2a "the same without cuDNN" "$(bounded 40)" "$python" -c '
import sys, pytest, torch
torch.backends.cudnn.enabled = False
sys.exit(pytest.main(sys.argv[1:]))
' -q -p no:cacheprovider "$file" -k "seed_alone or cpu_do"
        part 2b "the same with CUDA_LAUNCH_BLOCKING=1" "$(bounded 40)" env CUDA_LAUNCH_BLOCKING=1 \
            "$python" -m pytest -q -p no:cacheprovider "$file" -k "$chosen"
    fi
fi

translation=
summaries=
for number_of_part in 3 4 7 8 9; do
    if wants $number_of_part && [ -z "$translation" ]; then
        data_of translation "$rows_of_pairs"
        translation=$found
    fi
done
if wants 4; then
    data_of summaries "$rows_of_articles"
    summaries=$found
fi

if [ -z "$translation" ]; then
    record '' "Without data there are no measurements: parts 3, 4, 7, 8 and 9 of gpu.py fail."
fi

if wants 3; then
    measure 3 "two models" 60 --models soft postr-joint:0.99 --rounds 1
fi
if wants 4; then
    if [ -n "$summaries" ]; then
        measure 4 "all models" 280 --rounds 2 --summaries "$summaries"
    else
        measure 4 "all models" 280 --rounds 2
    fi
fi
if wants 5; then
    tests 5 "every model is replayed; stopped trainings go on" 120 tests/training/test_cuda.py \
        -k "need_not_wait or stopped"
fi
if wants 6; then
    tests 6 "a GPU computes what a CPU does" 180 tests/models/test_cuda.py
fi
if wants 7; then
    tests 7a "precisions, failed recordings, short memory" 60 tests/training/test_cuda.py \
        -k "precision or fails or cannot_be_recorded or short"
    measure 7b "two models in float32" 60 --models soft postr-joint:0.99 --rounds 1 --precision float32
fi
if wants 8; then
    if [ -n "${OLD:-}" ]; then
        measure 8 "beside an older version" 90 --models soft postr-joint:0.99 --rounds 2 --old "$OLD"
    else
        note "8. beside an older version: left out, OLD names no checkout"
    fi
fi
if wants 9; then
    peers=${PEERS:-data/peers}
    if [ -d "$peers" ]; then
        measure 9 "beside JoeyNMT and OpenNMT-py" 90 --models soft --rounds 2 --peers "$peers"
    else
        note "9. beside JoeyNMT and OpenNMT-py: left out, no folder $peers"
    fi
fi

finish "Ended"
cat "$out/record.md"
