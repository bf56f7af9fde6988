//! The requests sent to each provider, and the parsing of its responses.

use serde_json::{Value, json};
use treering_core::Json;
use treering_core::chat::{ChatReply, ChatRequest, FinishReason, Schema, Usage};
use treering_providers::remote::ApiProtocol;
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

use super::{KEY, UsageMeter, chat, embedder, fixture, question};

fn expected() -> ChatReply {
    ChatReply {
        text: "The gauge reads every 20 minutes.".into(),
        finish_reason: FinishReason::Complete,
        usage: Usage { calls: 1, tokens_in: 19, tokens_out: 10 },
        ..ChatReply::default()
    }
}

/// Checks a complete and a streamed answer, and returns the request for the complete one.
fn check(wire: ApiProtocol, complete: &str, pieces: &str, path: &str, stream_path: &str) -> Value {
    let server = FaultServer::start([
        ScriptedResponse::json(&fixture(complete)),
        ScriptedResponse::events(&fixture(pieces)),
    ]);
    let chat = chat(wire, &server);
    assert_eq!(chat.name(), "test/m-1");
    assert_eq!(chat.complete(&question()).unwrap(), expected());
    let mut received = Vec::new();
    let streamed = chat.stream(&question(), &mut |piece| received.push(piece.to_owned())).unwrap();
    assert_eq!(streamed, expected());
    assert_eq!(received, ["The gauge reads ", "every 20 minutes."]);
    let requests = server.requests();
    assert_eq!((requests[0].path.as_str(), requests[1].path.as_str()), (path, stream_path));
    let id = requests[0].header("x-client-request-id").unwrap();
    assert!(id.starts_with("treering-") && requests[1].header("x-client-request-id") != Some(id));
    serde_json::from_str(&requests[0].body).unwrap()
}

#[test]
fn openai() {
    let path = "/chat/completions";
    let body = check(ApiProtocol::OpenAi, "openai-chat.json", "openai-chat.events", path, path);
    assert_eq!(body["model"], "m-1");
    assert_eq!(body["messages"][0], json!({"role": "system", "content": "Be short."}));
    assert_eq!(body["messages"][2]["role"], "assistant");
    assert_eq!((&body["max_completion_tokens"], &body["temperature"]), (&json!(50), &json!(0.3)));
    assert_eq!(body["response_format"]["type"], "json_schema");
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(body["response_format"]["json_schema"]["schema"]["type"], "object");
    let older =
        check(ApiProtocol::Compatible, "openai-chat.json", "openai-chat.events", path, path);
    assert_eq!((&older["max_tokens"], older.get("max_completion_tokens")), (&json!(50), None));
}

#[test]
fn a_streamed_refusal_is_recognized() {
    let refusal = json!({"choices": [{"delta": {"refusal": "No."}}]});
    let last = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let server = FaultServer::start([ScriptedResponse::events(&format!(
        "data: {refusal}\n\ndata: {last}\n\ndata: [DONE]\n"
    ))]);
    let reply = chat(ApiProtocol::OpenAi, &server).stream(&question(), &mut |_| ()).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason), ("No.", FinishReason::Declined));
}

#[test]
fn missing_token_counts_are_estimated() {
    let answer = json!({"choices": [{"message": {"content": "Every 20 minutes."}, "finish_reason": "stop"}]});
    let server = FaultServer::start([ScriptedResponse::json(&answer)]);
    let usage = chat(ApiProtocol::Compatible, &server).complete(&question()).unwrap().usage;
    assert_eq!(usage, Usage { calls: 1, tokens_in: question().estimated_tokens(), tokens_out: 5 });
}

#[test]
fn anthropic() {
    let path = "/v1/messages";
    let body =
        check(ApiProtocol::Anthropic, "anthropic-chat.json", "anthropic-chat.events", path, path);
    assert_eq!(body["system"], "Be short.");
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
    assert_eq!(body["max_tokens"], 50);
}

#[test]
fn gemini() {
    let (path, stream) =
        ("/models/m-1:generateContent", "/models/m-1:streamGenerateContent?alt=sse");
    let body = check(ApiProtocol::Gemini, "gemini-chat.json", "gemini-chat.events", path, stream);
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "Be short.");
    assert_eq!(body["contents"][1], json!({"role": "model", "parts": [{"text": "What?"}]}));
    let config = &body["generationConfig"];
    assert_eq!((&config["maxOutputTokens"], &config["temperature"]), (&json!(50), &json!(0.3)));
    assert_eq!(config["responseMimeType"], "application/json");
    assert!(config["responseSchema"]["properties"].is_object());
    assert!(config["responseSchema"].get("additionalProperties").is_none());
}

#[test]
fn ollama() {
    let path = "/api/chat";
    let body = check(ApiProtocol::Ollama, "ollama-chat.json", "ollama-chat.lines", path, path);
    assert_eq!(body["stream"], false);
    assert_eq!(body["format"]["type"], "object");
    assert_eq!(body["options"], json!({"num_ctx": 4096, "num_predict": 50, "temperature": 0.3}));
}

#[test]
fn keys_are_sent_in_the_header_of_each_provider_only() {
    for (wire, header, value) in [
        (ApiProtocol::OpenAi, "authorization", format!("Bearer {KEY}")),
        (ApiProtocol::Compatible, "authorization", format!("Bearer {KEY}")),
        (ApiProtocol::Anthropic, "x-api-key", KEY.to_owned()),
        (ApiProtocol::Gemini, "x-goog-api-key", KEY.to_owned()),
        (ApiProtocol::Ollama, "authorization", format!("Bearer {KEY}")),
    ] {
        let server = FaultServer::start([ScriptedResponse::refuse(
            401,
            &format!("{{\"error\": \"bad key {KEY}\"}}"),
        )]);
        let error = chat(wire, &server).complete(&question()).unwrap_err();
        let requests = &server.requests()[0];
        assert_eq!(requests.header(header), Some(value.as_str()), "{wire:?}");
        assert!(!requests.path.contains(KEY) && !requests.body.contains(KEY), "{wire:?}");
        assert!(!error.reason.contains(KEY) && error.reason.contains("[key]"), "{error}");
    }
}

#[test]
fn vectors_are_normalized_and_keep_their_order() {
    for (wire, answer, path) in [
        (ApiProtocol::OpenAi, "openai-embeddings.json", "/embeddings"),
        (ApiProtocol::Gemini, "gemini-embeddings.json", "/models/e-1:batchEmbedContents"),
        (ApiProtocol::Ollama, "ollama-embeddings.json", "/api/embed"),
    ] {
        let server = FaultServer::start([ScriptedResponse::json(&fixture(answer))]);
        let embedder = embedder(wire, &server, None);
        let vectors = embedder.embed(&["one", " ", "two"]).unwrap();
        assert_eq!(vectors, [vec![0.6, 0.0, 0.8], vec![0.0; 3], vec![0.0, 1.0, 0.0]], "{wire:?}");
        assert_eq!((embedder.dims(), embedder.name()), (3, "test/e-1"));
        assert_eq!(server.requests().len(), 1);
        assert_eq!(server.requests()[0].path, path);
    }
}

#[test]
fn usage_and_redactions_of_embeddings_are_metered() {
    let texts = ["The key is sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x.", "two"];
    let rough = texts.iter().map(|text| text.len() as u64).sum::<u64>().div_ceil(4);
    for (wire, answer, tokens) in [
        (ApiProtocol::OpenAi, "openai-embeddings.json", 8),
        // This response does not report usage.
        (ApiProtocol::Gemini, "gemini-embeddings.json", rough),
        (ApiProtocol::Ollama, "ollama-embeddings.json", 8),
    ] {
        let server = FaultServer::start([
            ScriptedResponse::json(&fixture(answer)),
            ScriptedResponse::refuse(500, "down"),
        ]);
        let (embedder, meter) = (embedder(wire, &server, None), UsageMeter::default());
        embedder.embed_metered(&texts, &meter).unwrap();
        assert!(embedder.embed_metered(&texts, &meter).is_err());
        let (usage, redacted) = meter.0.into_inner().unwrap();
        assert_eq!(usage, Usage::for_call(tokens, 0), "{wire:?}: what failed costs nothing");
        assert_eq!(redacted.to_string(), "2 × API key", "also of what left and failed");
    }
}

#[test]
fn fewer_dimensions_count_as_another_model() {
    for (wire, answer, field) in [
        (ApiProtocol::OpenAi, "openai-embeddings.json", "dimensions"),
        (ApiProtocol::Gemini, "gemini-embeddings.json", "outputDimensionality"),
        (ApiProtocol::Ollama, "ollama-embeddings.json", "dimensions"),
    ] {
        let server = FaultServer::start([ScriptedResponse::json(&fixture(answer))]);
        let embedder = embedder(wire, &server, Some(3));
        assert_eq!((embedder.dims(), embedder.name()), (3, "test/e-1@3"));
        embedder.embed(&["one", "two"]).unwrap();
        assert!(server.requests()[0].body.contains(&format!("\"{field}\":3")), "{wire:?}");
    }
}

/// Servers that enforce a schema fill in its fields in the given order.
#[test]
fn schema_fields_keep_their_order() {
    for wire in [
        ApiProtocol::OpenAi,
        ApiProtocol::Anthropic,
        ApiProtocol::Gemini,
        ApiProtocol::Ollama,
        ApiProtocol::Compatible,
    ] {
        let server = FaultServer::start([ScriptedResponse::refuse(500, "down")]);
        let form = r#"{"type": "object", "additionalProperties": false,
            "properties": {"zeal": {"type": "string"}, "mood": {"type": "string"}, "aim": {"type": "string"}}}"#;
        let schema = Some(Schema { name: "form".into(), json: Json::new(form).unwrap() });
        assert!(chat(wire, &server).complete(&ChatRequest { schema, ..question() }).is_err());
        let body = &server.requests()[0].body;
        let positions =
            ["zeal", "mood", "aim"].map(|field| body.find(&format!("\"{field}\"")).unwrap());
        assert!(positions.is_sorted(), "{wire:?}: {body}");
    }
}

#[test]
fn no_call_bypasses_the_meter() {
    let one =
        json!({"data": [{"index": 0, "embedding": [0.6, 0.8]}], "usage": {"prompt_tokens": 3}});
    let server = FaultServer::start([ScriptedResponse::json(&one)]);
    let (embedder, meter) = (embedder(ApiProtocol::OpenAi, &server, None), UsageMeter::default());
    assert_eq!((embedder.dims(), server.requests().len()), (0, 0), "only a vector tells");
    assert_eq!(embedder.embed_metered(&[" ", ""], &meter).unwrap(), [[0.0, 0.0], [0.0, 0.0]]);
    assert_eq!((embedder.dims(), server.requests().len()), (2, 1));
    embedder.embed_metered(&["", "one"], &meter).unwrap();
    assert_eq!(meter.0.into_inner().unwrap().0, Usage { calls: 2, tokens_in: 6, tokens_out: 0 });
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn texts_are_embedded_in_batches() {
    let answer = |count: usize| {
        let rows: Vec<Value> =
            (0..count).map(|at| json!({"index": at, "embedding": [at + 1, 0]})).collect();
        ScriptedResponse::json(&json!({"data": rows}))
    };
    let server = FaultServer::start([answer(64), answer(64), answer(2)]);
    let texts = vec!["x"; 130];
    assert_eq!(embedder(ApiProtocol::OpenAi, &server, None).embed(&texts).unwrap().len(), 130);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn unsupported_parameters_are_left_out() {
    let words = |words: &str| {
        ScriptedResponse::refuse(400, &json!({"error": {"message": words}}).to_string())
    };
    let server = FaultServer::start([
        words(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        ),
        words("Unsupported value: 'temperature' does not support 0.3 with this model."),
        words("'response_format' of type 'json_schema' is not supported"),
        ScriptedResponse::json(&fixture("openai-chat.json")),
    ]);
    let chat = chat(ApiProtocol::Compatible, &server);
    assert_eq!(chat.complete(&question()).unwrap(), expected());
    assert_eq!(chat.complete(&question()).unwrap(), expected());
    assert_eq!(server.requests().len(), 5, "it is learned once");
    let body: Value = serde_json::from_str(&server.requests()[4].body).unwrap();
    assert_eq!(body["max_completion_tokens"], 50);
    for field in ["max_tokens", "temperature", "response_format"] {
        assert!(body.get(field).is_none(), "{field}");
    }
}

#[test]
fn older_anthropic_models_use_a_forced_tool() {
    let words = "output_config: structured outputs are not supported by this model";
    let refused =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
    let answer = ScriptedResponse::json(&fixture("anthropic-tool.json"));
    let server = FaultServer::start([ScriptedResponse::refuse(400, &refused.to_string()), answer]);
    let reply = chat(ApiProtocol::Anthropic, &server).complete(&question()).unwrap();
    assert_eq!(reply.text, r#"{"overview":"The gauge reads every 20 minutes."}"#);
    let body: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "summary"}));
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
}
