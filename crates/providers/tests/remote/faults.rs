//! Misbehaving providers: every failure becomes an error with retry advice.

use std::time::Duration;

use serde_json::json;
use treering_core::chat::{ChatMessage, ChatRequest, FinishReason, Usage};
use treering_core::{ProviderError, RetryAdvice, Role};
use treering_providers::http::Client;
use treering_providers::remote::{self, ApiProtocol};
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

use super::{UsageMeter, chat, embedder, endpoint, fixture, question};

const WIRES: [ApiProtocol; 5] = [
    ApiProtocol::OpenAi,
    ApiProtocol::Anthropic,
    ApiProtocol::Gemini,
    ApiProtocol::Ollama,
    ApiProtocol::Compatible,
];

/// Protocols with embedding models.
const VECTOR_WIRES: [ApiProtocol; 3] =
    [ApiProtocol::OpenAi, ApiProtocol::Gemini, ApiProtocol::Ollama];

fn complete(wire: ApiProtocol, response: ScriptedResponse) -> ProviderError {
    let server = FaultServer::start([response]);
    chat(wire, &server).complete(&question()).unwrap_err()
}

#[test]
fn retry_after_becomes_retry_advice() {
    for wire in WIRES {
        let after = |value: &str| vec![("retry-after", value.to_owned())];
        let error = complete(wire, ScriptedResponse::Respond(429, after("7"), "{}".into()));
        assert_eq!(error.advice, RetryAdvice::RetryAfter(7000), "{error}");
        let error = complete(
            wire,
            ScriptedResponse::Respond(503, after("Fri, 31 Dec 1999 23:59:59 GMT"), String::new()),
        );
        assert_eq!(error.advice, RetryAdvice::RetryAfter(0), "{error}");
        assert_eq!(complete(wire, ScriptedResponse::refuse(429, "")).advice, RetryAdvice::Retry);
    }
}

#[test]
fn transient_errors_are_retried_and_permanent_ones_are_not() {
    for wire in WIRES {
        for status in [500, 502, 529] {
            assert_eq!(
                complete(wire, ScriptedResponse::refuse(status, "oops")).advice,
                RetryAdvice::Retry,
                "{status}"
            );
        }
        for status in [400, 401, 403, 404, 307] {
            let error = complete(
                wire,
                ScriptedResponse::refuse(status, r#"{"error": {"message": "no such thing"}}"#),
            );
            assert_eq!(error.advice, RetryAdvice::GiveUp, "{error}");
            assert!(
                error.reason.contains("no such thing")
                    && error.reason.contains("request treering-"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_hanging_provider_times_out_and_its_input_is_charged() {
    for wire in WIRES {
        let error = complete(wire, ScriptedResponse::Hang(Duration::from_secs(20)));
        assert_eq!(error.advice, RetryAdvice::Retry, "{error}");
        assert!(error.reason.contains("timed out"), "{error}");
        let call = error.call.unwrap();
        assert_eq!(
            (call.is_charged, call.usage),
            (true, Usage::for_call(question().estimated_tokens(), 0))
        );
    }
    for wire in VECTOR_WIRES {
        let server = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(20))]);
        let meter = UsageMeter::default();
        let error = embedder(wire, &server, Some(3)).embed_metered(&["one"], &meter).unwrap_err();
        assert!(
            error.advice == RetryAdvice::Retry && error.reason.contains("timed out"),
            "{error}"
        );
        assert_eq!(meter.0.into_inner().unwrap().0, Usage::for_call(1, 0));
    }
}

#[test]
fn a_broken_connection_is_retried_at_once() {
    let server = FaultServer::start([
        ScriptedResponse::Disconnect,
        ScriptedResponse::Disconnect,
        ScriptedResponse::json(&fixture("openai-chat.json")),
    ]);
    assert!(chat(ApiProtocol::OpenAi, &server).complete(&question()).is_ok());
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        requests[0].header("x-client-request-id"),
        requests[2].header("x-client-request-id")
    );
    let error = complete(ApiProtocol::OpenAi, ScriptedResponse::Disconnect);
    assert_eq!(error.advice, RetryAdvice::Retry, "{error}");
}

#[test]
fn an_unreachable_server_is_a_transient_error() {
    let mut unreachable = endpoint(&FaultServer::start([]));
    unreachable.base_url = "http://127.0.0.1:9".into();
    let error = remote::chat(ApiProtocol::OpenAi, Client::new(unreachable), "m")
        .complete(&question())
        .unwrap_err();
    assert_eq!(error.advice, RetryAdvice::Retry, "{error}");
    assert!(!error.call.unwrap().is_charged, "nobody can have read it");
}

#[test]
fn unusable_answers_are_errors() {
    for wire in WIRES {
        for body in [
            "",
            "{\"choices\": [",
            "<html>",
            "{}",
            "[]",
            "null",
            "{\"choices\": [], \"content\": []}",
        ] {
            let error = complete(wire, ScriptedResponse::json(body));
            assert_eq!(error.advice, RetryAdvice::Retry, "{wire:?} {body}: {error}");
            assert!(error.reason.starts_with("test: "), "{error}");
        }
        let error = complete(wire, ScriptedResponse::Truncate("{\"choices\": [".into()));
        assert_eq!(error.advice, RetryAdvice::Retry, "{error}");
    }
}

#[test]
fn a_stream_that_breaks_off_is_an_error() {
    let streams = [
        "openai-chat.events",
        "anthropic-chat.events",
        "gemini-chat.events",
        "ollama-chat.lines",
        "openai-chat.events",
    ];
    for (wire, stream) in WIRES.into_iter().zip(streams) {
        let complete_text = fixture(stream);
        let half = complete_text[..complete_text.find("every").unwrap()].to_owned();
        let line_end = half.rfind('\n').unwrap() + 1;
        for response in [
            ScriptedResponse::Truncate(half.clone()),
            ScriptedResponse::events(&half),
            ScriptedResponse::events(&half[..line_end]),
        ] {
            let server = FaultServer::start([response]);
            let mut received = String::new();
            let error = chat(wire, &server)
                .stream(&question(), &mut |piece| received.push_str(piece))
                .unwrap_err();
            assert_eq!(error.advice, RetryAdvice::Retry, "{wire:?}: {error}");
            assert_eq!(received, "The gauge reads ", "{wire:?}");
            assert_eq!(server.requests().len(), 1, "what was heard is not said again");
        }
    }
    let overloaded = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}});
    let server = FaultServer::start([ScriptedResponse::events(&format!("data: {overloaded}\n\n"))]);
    let error = chat(ApiProtocol::Anthropic, &server).stream(&question(), &mut |_| ()).unwrap_err();
    assert!(error.reason.contains("Overloaded"), "{error}");
}

/// A response with these vectors.
fn vectors(wire: ApiProtocol, vectors: &[serde_json::Value]) -> serde_json::Value {
    let vectors_as =
        |name: &str| vectors.iter().map(|vector| json!({ name: vector })).collect::<Vec<_>>();
    match wire {
        ApiProtocol::Gemini => json!({ "embeddings": vectors_as("values") }),
        ApiProtocol::Ollama => json!({ "embeddings": vectors }),
        _ => json!({ "data": vectors_as("embedding") }),
    }
}

#[test]
fn unusable_vectors_are_errors() {
    let vector = json!([1.0, 0.0, 0.0]);
    for wire in VECTOR_WIRES {
        let check = |second: ScriptedResponse, advice: RetryAdvice, words: &str| {
            let server = FaultServer::start([
                ScriptedResponse::json(&vectors(wire, std::slice::from_ref(&vector))),
                second,
            ]);
            let embedder = embedder(wire, &server, None);
            embedder.embed(&["one"]).unwrap();
            let error = embedder.embed(&["two"]).unwrap_err();
            assert_eq!(error.advice, advice, "{wire:?}: {error}");
            assert!(error.reason.contains(words), "{wire:?}: {error}");
        };
        let row = |numbers: serde_json::Value| ScriptedResponse::json(&vectors(wire, &[numbers]));
        check(row(json!([1.0, 0.0])), RetryAdvice::GiveUp, "2 dimensions instead of 3");
        check(row(json!([])), RetryAdvice::Retry, "empty");
        check(row(json!([0.0, 0.0, 0.0])), RetryAdvice::Retry, "of length zero");
        check(row(json!("abc")), RetryAdvice::Retry, "empty");
        check(
            ScriptedResponse::json(&vectors(wire, &[])),
            RetryAdvice::Retry,
            "0 vectors for 1 texts",
        );
        check(ScriptedResponse::json("{}"), RetryAdvice::Retry, "without vectors");
        check(ScriptedResponse::json("{\"data\": ["), RetryAdvice::Retry, "not JSON");
        check(ScriptedResponse::Truncate("{\"data\": [".into()), RetryAdvice::Retry, "");
        check(ScriptedResponse::refuse(500, "oops"), RetryAdvice::Retry, "500");
        check(
            ScriptedResponse::Respond(429, vec![("retry-after", "7".into())], "{}".into()),
            RetryAdvice::RetryAfter(7000),
            "429",
        );
    }
}

#[test]
fn gemini_embeds_texts_in_batches() {
    let mut numbers = vec![0.0; 3072];
    numbers[7] = 1.0;
    let answer = |texts: usize| {
        ScriptedResponse::json(&vectors(ApiProtocol::Gemini, &vec![json!(numbers); texts]))
    };
    let server = FaultServer::start([answer(100), answer(100), answer(30)]);
    let embedder = remote::embedder(
        ApiProtocol::Gemini,
        Client::new(endpoint(&server)),
        "gemini-embedding-001",
        None,
    )
    .unwrap();
    assert_eq!(embedder.dims(), 3072, "known without asking");
    let texts: Vec<String> = (0..230).map(|number| format!("text {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(
        embedder.embed(&texts).unwrap(),
        vec![numbers.iter().map(|x| *x as f32).collect::<Vec<f32>>(); 230]
    );
    let requests = server.requests();
    let sizes: Vec<usize> =
        requests.iter().map(|requests| requests.body.matches("\"text ").count()).collect();
    assert_eq!(sizes, [100, 100, 30]);
}

#[test]
fn the_usage_of_an_unusable_answer_is_reported() {
    let thought = json!({"choices": [{"message": {"content": ""}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 3000}});
    let server = FaultServer::start([ScriptedResponse::json(&thought)]);
    let reply = chat(ApiProtocol::OpenAi, &server).complete(&question()).unwrap();
    assert_eq!(
        (reply.finish_reason, reply.usage),
        (FinishReason::Truncated, Usage::for_call(200, 3000))
    );
    let silent = json!({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 1}});
    let call = complete(ApiProtocol::OpenAi, ScriptedResponse::json(&silent)).call.unwrap();
    assert_eq!((call.is_charged, call.usage), (true, Usage::for_call(200, 1)));

    let complete_text = fixture("anthropic-chat.events");
    let half = complete_text[..complete_text.find("every").unwrap()].to_owned();
    let server = FaultServer::start([ScriptedResponse::Truncate(half)]);
    let error = chat(ApiProtocol::Anthropic, &server).stream(&question(), &mut |_| ()).unwrap_err();
    let call = error.call.unwrap();
    assert!(call.is_charged && call.usage.calls == 1 && call.usage.tokens_in > 0, "{call:?}");
    assert!(
        !complete(ApiProtocol::OpenAi, ScriptedResponse::refuse(500, "")).call.unwrap().is_charged,
        "a refusal costs nothing"
    );
}

#[test]
fn a_refusal_has_the_finish_reason_declined() {
    let declined = json!({"choices": [{"message": {"content": null, "refusal": "No."}, "finish_reason": "stop"}]});
    let server = FaultServer::start([ScriptedResponse::json(&declined)]);
    assert_eq!(
        chat(ApiProtocol::OpenAi, &server).complete(&question()).unwrap().finish_reason,
        FinishReason::Declined
    );
    let server = FaultServer::start([ScriptedResponse::json(
        &json!({"promptFeedback": {"blockReason": "SAFETY"}}),
    )]);
    assert_eq!(
        chat(ApiProtocol::Gemini, &server).complete(&question()).unwrap().finish_reason,
        FinishReason::Declined
    );
}

#[test]
fn secrets_are_redacted_from_requests() {
    let secret = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x";
    let request =
        ChatRequest::new(vec![ChatMessage::new(Role::User, format!("The key is {secret}."))]);
    for wire in WIRES {
        let server = FaultServer::start([ScriptedResponse::refuse(500, "")]);
        drop(chat(wire, &server).complete(&request));
        assert!(!server.requests()[0].body.contains(secret), "{wire:?}");
    }
    let server = FaultServer::start([ScriptedResponse::json(&fixture("openai-chat.json"))]);
    let reply = chat(ApiProtocol::OpenAi, &server).complete(&request).unwrap();
    assert_eq!(reply.redacted.to_string(), "1 × API key");
    drop(embedder(ApiProtocol::OpenAi, &server, None).embed(&[secret]));
    assert!(!server.requests()[1].body.contains(secret));
    let open = treering_providers::http::Endpoint { redact: false, ..endpoint(&server) };
    drop(remote::chat(ApiProtocol::OpenAi, Client::new(open), "m").complete(&request));
    assert!(server.requests()[2].body.contains(secret), "by choice only");
}
