// All of tenon for the CPU: ring 1 plus files, tokenizers, chat templates and generation. Needs the libraries that the
// CMake target tenon::text brings: nlohmann_json, PCRE2 and utf8proc.
#pragma once

#include <tenon/tenon.hpp>

#include <tenon/generate/generate_text.hpp>
#include <tenon/generate/generation_defaults.hpp>
#include <tenon/generate/logit_row.hpp>
#include <tenon/generate/sampling_options.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/io/atomic_file.hpp>
#include <tenon/io/checkpoint.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/generation_config.hpp>
#include <tenon/io/json.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/io/llama2c_header.hpp>
#include <tenon/io/load.hpp>
#include <tenon/io/model_config.hpp>
#include <tenon/io/safetensors.hpp>
#include <tenon/io/safetensors_header.hpp>
#include <tenon/io/save_safetensors.hpp>
#include <tenon/io/tokenizer_config.hpp>
#include <tenon/text/added_tokens.hpp>
#include <tenon/text/ascii_split.hpp>
#include <tenon/text/bpe.hpp>
#include <tenon/text/byte_level.hpp>
#include <tenon/text/character_class.hpp>
#include <tenon/text/chat_layout.hpp>
#include <tenon/text/chat_message.hpp>
#include <tenon/text/chat_render.hpp>
#include <tenon/text/chat_template.hpp>
#include <tenon/text/encode_prompt.hpp>
#include <tenon/text/jinja_outline.hpp>
#include <tenon/text/nfc.hpp>
#include <tenon/text/normalizer.hpp>
#include <tenon/text/pre_tokenizer.hpp>
#include <tenon/text/regex.hpp>
#include <tenon/text/template_json.hpp>
#include <tenon/text/text_stream.hpp>
#include <tenon/text/token_table.hpp>
#include <tenon/text/tokenizer.hpp>
#include <tenon/text/tokenizer_build.hpp>
#include <tenon/text/tokenizer_data.hpp>
#include <tenon/text/tokenizer_json.hpp>
#include <tenon/text/tokenizer_steps.hpp>
#include <tenon/text/utf8.hpp>
