;;; What a user's init file says of eglot.  -*- lexical-binding: t -*-
;; After session.el.

(require 'eglot)

(add-to-list 'eglot-server-programs (cons 'python-mode lspool-command))
(setq eglot-sync-connect 40
      eglot-connect-timeout 40
      eglot-report-progress nil)

(defun lspool-ask (method)
  "The answer to METHOD about the place of point."
  (jsonrpc-request (eglot-current-server) method (eglot--TextDocumentPositionParams) :timeout 40))

(lspool-session
 `((start . ,(lambda () (call-interactively #'eglot)))
   (diagnostics . ,(lambda () (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))
   (hover . ,(lambda () (plist-get (plist-get (lspool-ask :textDocument/hover) :contents) :value)))
   (line . ,(lambda ()
              (let ((found (xref-backend-definitions 'eglot (xref-backend-identifier-at-point 'eglot))))
                (xref-location-line (xref-item-location (car found))))))
   (changed . ,#'eglot--signal-textDocument/didChange)
   (completion . ,(lambda ()
                    (let ((found (lspool-ask :textDocument/completion)))
                      (mapcar (lambda (it) (plist-get it :label)) (or (plist-get found :items) found)))))
   (stop . ,(lambda () (eglot-shutdown (eglot-current-server))))))
